package admin

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"

	"github.com/weir-dev/weir/limiter/reply"
)

type callerKey struct{}

// WithCaller returns a context with the name of an authenticated caller.
func WithCaller(ctx context.Context, name string) context.Context {
	return context.WithValue(ctx, callerKey{}, name)
}

// Caller returns the name of the authenticated caller, or "" if the caller is not authenticated.
func Caller(ctx context.Context) string {
	name, _ := ctx.Value(callerKey{}).(string)
	return name
}

// Authenticated rejects requests without an authenticated caller.
func Authenticated(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if Caller(r.Context()) == "" {
			unauthorized(w, "the caller is not authenticated")
			return
		}
		next.ServeHTTP(w, r)
	})
}

// minToken is the length of the shortest token, in bytes.
const minToken = 32

// ReadToken reads a token from a file, without the white space around it.
func ReadToken(file string) (string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	token := strings.TrimSpace(string(text))
	if len(token) < minToken {
		return "", fmt.Errorf("the token in %s must have at least %d bytes, got %d: create one with `openssl rand -hex 32`", file, minToken, len(token))
	}
	return token, nil
}

// WithToken authenticates callers by the bearer token in a file. It reads the file for each request, so that the token can be replaced.
func WithToken(file string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token, err := ReadToken(file)
		if err != nil {
			reply.NewProblem(http.StatusServiceUnavailable, "", "the limiter cannot read its admin token").Write(w)
			return
		}
		if err := verify(r, token); err != nil {
			unauthorized(w, err.Error())
			return
		}
		next.ServeHTTP(w, r.WithContext(WithCaller(r.Context(), "token "+file)))
	})
}

// verify compares hashes, so that the time does not depend on the token.
func verify(r *http.Request, token string) error {
	given, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok {
		return errors.New("the header Authorization must contain a bearer token")
	}
	a, b := sha256.Sum256([]byte(given)), sha256.Sum256([]byte(token))
	if subtle.ConstantTimeCompare(a[:], b[:]) != 1 {
		return errors.New("the token is wrong")
	}
	return nil
}

func unauthorized(w http.ResponseWriter, detail string) {
	w.Header().Set("WWW-Authenticate", "Bearer")
	reply.NewProblem(http.StatusUnauthorized, "", detail).Write(w)
}
