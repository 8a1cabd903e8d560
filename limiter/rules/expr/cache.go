package expr

import (
	"runtime"
	"sync"
	"weak"
)

// Cache compiles expressions, and returns the same Expression for a text as long as one is in use. Many policies have the same expressions, and to
// compile one takes up to tens of milliseconds. It is safe for concurrent use.
type Cache struct {
	mu    sync.Mutex
	byKey map[Key]weak.Pointer[Expression]
}

// NewCache returns an empty Cache.
func NewCache() *Cache { return &Cache{byKey: map[Key]weak.Pointer[Expression]{}} }

// Compile is the function Compile.
func (c *Cache) Compile(language Language, text string, result ResultType) (*Expression, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := Key{Language: language, Text: text, Result: result}
	if e := c.byKey[key].Value(); e != nil {
		return e, nil
	}
	e, err := Compile(language, text, result)
	if err != nil {
		return nil, err
	}
	c.byKey[key] = weak.Make(e)
	runtime.AddCleanup(e, c.drop, key)
	return e, nil
}

// drop removes an expression that is no longer in use.
func (c *Cache) drop(key Key) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.byKey[key].Value() == nil { // else it was compiled again
		delete(c.byKey, key)
	}
}

// Len returns the number of expressions in use.
func (c *Cache) Len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.byKey)
}
