package h2

import "sync"

// workers run calls on goroutines that are reused, because the stack of a new goroutine has to grow for each call. The last one that
// became idle is used first: its stack is in the cache of a processor.
type workers struct {
	mu      sync.Mutex
	idle    []*worker
	stopped bool
	running sync.WaitGroup // calls
}

// worker is a goroutine that waits for calls. Its channel has room for one call, so that the caller does not wait for the goroutine.
type worker struct {
	calls   chan *stream
	scratch []byte // for responses
}

// maxIdle bounds the goroutines that wait for calls. More calls at a time have a goroutine each that ends with the call.
const maxIdle = 256

// run runs a call on a worker.
func (w *workers) run(s *stream) {
	w.running.Add(1)
	w.mu.Lock()
	last := len(w.idle) - 1
	if last < 0 {
		w.mu.Unlock()
		one := &worker{calls: make(chan *stream, 1)}
		one.calls <- s
		go one.run(w)
		return
	}
	one := w.idle[last]
	w.idle[last] = nil
	w.idle = w.idle[:last]
	w.mu.Unlock()
	one.calls <- s
}

func (o *worker) run(w *workers) {
	for s := range o.calls {
		s.run(o)
		w.running.Done()
		if !w.park(o) {
			return
		}
	}
}

// park makes a worker available. It reports whether the worker has to wait for calls.
func (w *workers) park(o *worker) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stopped || len(w.idle) >= maxIdle {
		return false
	}
	w.idle = append(w.idle, o)
	return true
}

// stop waits for the calls and ends the goroutines. No call may come after it.
func (w *workers) stop() {
	w.running.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stopped = true
	for _, o := range w.idle {
		close(o.calls)
	}
	w.idle = nil
}
