package adminproxy

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"time"
)

const (
	// maxBody is the size of the largest request, in bytes, as on a limiter.
	maxBody = 8 << 20
	// smallBody is the size of a request of which any number can be in memory, in bytes. Of larger ones, there are maxLargeBodies.
	smallBody      = 64 << 10
	maxLargeBodies = 4
	// bodyTimeout bounds the time that a body takes to arrive.
	bodyTimeout = 5 * time.Second
)

// readRequest reads the body of a request. The caller calls release when it does not use the body anymore.
func (h *handler) readRequest(w http.ResponseWriter, r *http.Request) (body []byte, release func(), bad *problem) {
	in := http.NewResponseController(w)
	_ = in.SetReadDeadline(time.Now().Add(bodyTimeout)) // fails for a writer without deadlines, as in a test
	body, release, err := h.readBody(r.Context(), r.Body)
	switch {
	case errors.Is(err, errBodies):
		bad = newProblem(http.StatusServiceUnavailable, "%v", err)
	case errors.Is(err, os.ErrDeadlineExceeded):
		bad = newProblem(http.StatusRequestTimeout, "the body has not arrived within %v", bodyTimeout)
	case err != nil:
		bad = newProblem(http.StatusBadRequest, "the body ended early")
	case len(body) > maxBody:
		bad = newProblem(http.StatusRequestEntityTooLarge, "the body is larger than %d bytes", maxBody)
	}
	if bad != nil {
		release()
		return nil, nil, bad
	}
	_ = in.SetReadDeadline(time.Time{}) // otherwise the request ends at that time
	return body, release, nil
}

var errBodies = errors.New("the operator serves other large requests already: try again")

// readBody reads up to maxBody bytes, and one more if there are more.
func (h *handler) readBody(ctx context.Context, from io.Reader) (body []byte, release func(), err error) {
	release = func() {}
	body, err = readInto(nil, from, smallBody+1)
	if err != nil || len(body) <= smallBody {
		return body, release, err
	}
	ctx, cancel := context.WithTimeout(ctx, bodyTimeout)
	defer cancel()
	select {
	case h.bodies <- struct{}{}:
	case <-ctx.Done():
		return nil, release, errBodies
	}
	body, err = readInto(body, from, maxBody+1)
	return body, func() { <-h.bodies }, err
}
