package cli

import (
	"os"
	"path/filepath"
	"sync"
	"time"
)

// renewalGrace is how long what was last read from a file counts after the file has become unusable. A program can truncate a file before it
// writes it, or delete it before it creates it.
const renewalGrace = 5 * time.Second

// Renewed is the content of a file that is renewed while the process runs.
type Renewed[T any] struct {
	file string
	read func() (T, error)

	mu   sync.Mutex
	last *T // nil before the first success
}

// NewRenewed returns the content that read reads from file. An error of read means that the file is unusable.
func NewRenewed[T any](file string, read func() (T, error)) *Renewed[T] {
	return &Renewed[T]{file: file, read: read}
}

// Get reads the file. If it is unusable, and was changed a few seconds ago at most, Get returns what the file contained before.
func (r *Renewed[T]) Get() (T, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	content, err := r.read()
	if err == nil {
		r.last = &content
		return content, nil
	}
	if r.last != nil && changedWithin(r.file, renewalGrace) {
		return *r.last, nil
	}
	return content, err
}

// changedWithin reports whether the file has changed within d, or was deleted: then its directory has changed.
func changedWithin(file string, d time.Duration) bool {
	info, err := os.Stat(file)
	if err != nil {
		info, err = os.Stat(filepath.Dir(file))
	}
	if err != nil {
		return false
	}
	age := time.Since(info.ModTime())
	return age < d && age > -d // a clock that is far ahead does not keep the content
}
