package admin

import (
	"net/http"
	"net/url"

	"github.com/weir-dev/weir/limiter/reply"
)

// CallerHeader is the header in which the operator sends the name of the user whose request it forwards, as escaped by [url.QueryEscape].
const CallerHeader = "Weir-Caller"

// WithForwardedCaller authenticates callers by the name that the operator sends. Only the operator must be able to connect.
func WithForwardedCaller(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, err := url.QueryUnescape(r.Header.Get(CallerHeader))
		if err != nil || name == "" {
			reply.NewProblem(http.StatusUnauthorized, "", "the header "+CallerHeader+" must name the caller").Write(w)
			return
		}
		next.ServeHTTP(w, r.WithContext(WithCaller(r.Context(), name)))
	})
}
