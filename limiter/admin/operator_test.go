package admin

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

func TestWithForwardedCaller_NamesTheUser(t *testing.T) {
	var caller string
	handler := WithForwardedCaller(Authenticated(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { caller = Caller(r.Context()) })))
	call := func(header string) int {
		caller = ""
		r := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
		r.Header.Set("Weir-Caller", header)
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		return w.Code
	}
	if status := call("J%C3%BCrgen+%0A"); status != 200 || caller != "Jürgen \n" {
		t.Errorf("status %d, caller %q", status, caller)
	}
	for _, header := range []string{"", "%"} {
		if status := call(header); status != 401 || caller != "" {
			t.Errorf("%q: status %d, caller %q", header, status, caller)
		}
	}
}
