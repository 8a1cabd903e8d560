package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/wait"
)

// apiServerAttempt bounds one attempt to reach the API server.
const apiServerAttempt = 10 * time.Second

// apiServerBackoff is the time between two attempts: 0.5 s at first, then 5 s. After an outage, the operator leads within seconds.
func apiServerBackoff() wait.Backoff {
	return wait.Backoff{Duration: 500 * time.Millisecond, Factor: 2, Jitter: 0.2, Steps: 100, Cap: 5 * time.Second}
}

// awaitAPIServer calls do until it succeeds, fails for another reason than an API server that is unavailable, or ctx ends. A process that
// exits instead waits for the kubelet, which restarts it after minutes. Meanwhile the probes of the kubelet are answered: the process is
// alive, and not ready.
func awaitAPIServer(ctx context.Context, health string, do func(context.Context) error) (err error) {
	stop, err := serveProbesMeanwhile(ctx, health)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	began, backoff, waiting := time.Now(), apiServerBackoff(), false
	for {
		attempt, cancel := context.WithTimeout(ctx, apiServerAttempt)
		err := do(attempt)
		cancel()
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err == nil && waiting:
			slog.Info("The Kubernetes API server is available", "after", time.Since(began).Round(time.Second).String())
			return nil
		case err == nil || !isUnavailable(err):
			return err
		}
		pause := backoff.Step()
		slog.Warn("The Kubernetes API server is unavailable; the operator waits for it", "error", err.Error(), "retry", pause.Round(time.Millisecond).String())
		waiting = true
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

// isUnavailable reports whether the same request may succeed later although nothing is changed.
func isUnavailable(err error) bool {
	if status := apierrors.APIStatus(nil); errors.As(err, &status) {
		return apierrors.IsServiceUnavailable(err) || apierrors.IsInternalError(err) || apierrors.IsTimeout(err) || apierrors.IsServerTimeout(err) ||
			apierrors.IsTooManyRequests(err) || apierrors.IsUnexpectedServerError(err)
	}
	_, network := errors.AsType[net.Error](err)
	return network || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		utilnet.IsConnectionRefused(err) || utilnet.IsConnectionReset(err)
}

// serveProbesMeanwhile serves /healthz and /readyz at the address until stop is called.
func serveProbesMeanwhile(ctx context.Context, address string) (stop func() error, err error) {
	if address == "" || address == "0" {
		return func() error { return nil }, nil
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("--health-probe-bind-address: %w", err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok\n") })
	mux.HandleFunc("/readyz", func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "waiting for the Kubernetes API server", http.StatusServiceUnavailable)
	})
	server := &http.Server{Handler: mux, ReadHeaderTimeout: time.Second}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	return func() error {
		closed := server.Close()
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return closed
	}, nil
}
