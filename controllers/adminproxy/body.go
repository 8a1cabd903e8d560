package adminproxy

import (
	"context"
	"errors"
	"io"
)

const (
	// maxAnswer is the size of the largest answer of a replica, in bytes: the rules of 10 000 policies take about 10 MB.
	maxAnswer = 64 << 20
	// smallAnswer is the size of an answer of which several can be in memory: one for each request. Of the larger ones, the operator keeps only
	// one in memory, and up to maxRequests answers to resets.
	smallAnswer = 1 << 20
)

var errBusy = errors.New("the operator is busy with large answers of other replicas: try again")

// readBounded reads up to most bytes, and one more if there are more. For a large answer, it waits until no other one is in memory. The
// caller calls release when it does not use the bytes anymore.
func (c *caller) readBounded(ctx context.Context, from io.Reader, most int) (body []byte, release func(), err error) {
	release = func() {}
	body, err = readInto(nil, from, min(smallAnswer, most)+1)
	if err != nil || len(body) <= smallAnswer || len(body) > most {
		return body, release, err
	}
	select {
	case c.large <- struct{}{}:
	case <-ctx.Done():
		return nil, release, errBusy
	}
	body, err = readInto(body, from, most+1)
	return body, func() { <-c.large }, err
}

// readInto appends to body what it reads until there are most bytes or from ends. It doubles the memory, up to most: io.ReadAll would take more.
func readInto(body []byte, from io.Reader, most int) ([]byte, error) {
	for len(body) < most {
		if len(body) == cap(body) {
			larger := make([]byte, len(body), min(max(2*cap(body), 4<<10), most))
			copy(larger, body)
			body = larger
		}
		n, err := from.Read(body[len(body):min(cap(body), most)])
		body = body[:len(body)+n]
		if errors.Is(err, io.EOF) {
			return body, nil
		}
		if err != nil {
			return nil, err
		}
	}
	return body, nil
}
