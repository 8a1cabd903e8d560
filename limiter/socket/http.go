// Package socket is what all sockets of a limiter have in common: how long callers may stall, and how a socket that is to
// stop drains, so that no request is refused. First it goes on taking requests until load balancers have seen that it is
// not ready any more, and has callers look for another limiter; then it takes no new ones and lets those under way finish.
package socket

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"
)

// Bounds of HTTP. Requests are small and answered within milliseconds; the read and write time-outs are there for callers
// that stall. Go's clients, API servers among them, close a connection that they have not used for 90 seconds, before this
// side does.
const (
	// ReadTimeout is how long a request may take to arrive.
	ReadTimeout       = 10 * time.Second
	readHeaderTimeout = 5 * time.Second
	writeTimeout      = 30 * time.Second // a slow scrape of the metrics included
	idleTimeout       = 2 * time.Minute
	maxHeaderBytes    = 32 << 10
)

// NewHTTP returns a server, which speaks no protocol yet. It has callers that keep connections open look for another
// limiter while this one is draining.
func NewHTTP(handler http.Handler, draining func() bool, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler:           closing(handler, draining),
		Protocols:         new(http.Protocols),
		ReadHeaderTimeout: readHeaderTimeout,
		ReadTimeout:       ReadTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
}

func closing(next http.Handler, draining func() bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if draining() {
			w.Header().Set("Connection", "close")
		}
		next.ServeHTTP(w, r)
	})
}

// StopHTTP takes no more connections and waits for the requests under way, within StopTimeout.
func StopHTTP(server *http.Server) error {
	ctx, cancel := context.WithTimeout(context.Background(), StopTimeout)
	defer cancel()
	if err := server.Shutdown(ctx); err != nil {
		return errors.Join(fmt.Errorf("requests were cut off after %v: %w", StopTimeout, err), server.Close())
	}
	return nil
}
