// Package socket has what all sockets of a limiter share: timeouts for callers that stall, and draining, which stops a socket without
// refusing requests. A draining socket first keeps accepting requests until load balancers have detected that it is not ready, and
// asks callers to reconnect to another limiter. Then it accepts no new requests and lets those in flight finish.
package socket

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"
)

// Bounds of HTTP. Requests are small and answered within milliseconds; the read and write timeouts are for callers that stall. Clients
// written in Go, including API servers, close a connection that is idle for 90 seconds, so they close it before this side does.
const (
	// ReadTimeout bounds the time that a request takes to arrive.
	ReadTimeout       = 10 * time.Second
	readHeaderTimeout = 5 * time.Second
	writeTimeout      = 30 * time.Second // long enough for a slow scrape of the metrics
	idleTimeout       = 2 * time.Minute
	maxHeaderBytes    = 32 << 10
)

// NewHTTP returns a server with no protocol enabled; the caller enables those it serves. While the limiter is draining, the server closes
// connections after each response, so that callers connect to another limiter. A response never waits for a body that the handler has not read.
func NewHTTP(handler http.Handler, draining func() bool, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler:           closing(WithoutWaitingForBodies(handler), draining),
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

// StopHTTP accepts no more connections and waits up to StopTimeout for the requests in flight.
func StopHTTP(server *http.Server) error {
	ctx, cancel := context.WithTimeout(context.Background(), StopTimeout)
	defer cancel()
	if err := server.Shutdown(ctx); err != nil {
		return errors.Join(fmt.Errorf("some requests did not finish within %v and were aborted: %w", StopTimeout, err), server.Close())
	}
	return nil
}
