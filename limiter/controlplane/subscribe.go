package controlplane

import "context"

// Subscribe returns a channel of published revisions. The subscription reconnects after a restart of Redis. The channel is
// closed when ctx ends or the client is closed.
//
// "" means "revisions may have been missed, call Current": it is the first value, and is sent after every reconnection. A
// slow reader misses older revisions, never the latest.
func (e *Exchange) Subscribe(ctx context.Context) <-chan string {
	out := make(chan string, 1)
	go func() {
		defer close(out)
		e.client.Follow(ctx, e.Channel(), func(revision string) { replace(out, revision) }, func() { replace(out, "") })
	}()
	return out
}

// replace sends revision, and drops the previous one if the reader has not received it. out has capacity 1, and this
// goroutine is its only writer, so the send does not block.
func replace(out chan string, revision string) {
	select {
	case <-out:
	default:
	}
	out <- revision
}
