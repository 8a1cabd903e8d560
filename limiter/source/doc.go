// Package source keeps a running limiter's rules up to date: from Redis, where an operator publishes them, or from a
// directory of files. A limiter that starts while Redis is away begins with a snapshot, a file. The package also tells
// Redis that the limiter lives.
//
// A source calls its [Apply] with every new Set, in order and from one goroutine. What cannot be read is refused: the
// Set before it stays in force, and the log says why, once.
package source

import "github.com/weir-dev/weir/limiter/rules"

// Apply puts a Set in force. An error refuses the Set.
type Apply func(set rules.Set, revision string) error
