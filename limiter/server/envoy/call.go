package envoy

import (
	"slices"
	"sync"

	"github.com/weir-dev/weir/limiter/reply"
	"github.com/weir-dev/weir/limiter/server/envoy/wire"
)

// call is one call of ShouldRateLimit. Calls are reused: nothing may refer to one, or to a slice in it, after it was released. Strings may be kept.
type call struct {
	request  wire.RateLimitRequest
	batch    batch
	fields   []reply.Field // of the response
	response []byte        // in wire format
	// overLimit is whether the response is a denial.
	overLimit bool
	calls     *sync.Pool
}

// The largest calls that are reused. They are larger than those of usual configurations of Envoy.
const (
	maxReusedDescriptors = 8
	maxReusedEntries     = 16 // of a descriptor
)

func newCalls() *sync.Pool {
	calls := &sync.Pool{}
	calls.New = func() any { return &call{calls: calls} }
	return calls
}

// release makes the call available for another one. The response stays.
func (c *call) release() {
	large := func(d wire.Descriptor) bool { return cap(d.Entries) > maxReusedEntries }
	if cap(c.request.Descriptors) > maxReusedDescriptors || slices.ContainsFunc(c.request.Descriptors, large) {
		return
	}
	c.request.Reset()
	clear(c.batch.checks)
	clear(c.batch.entries)
	clear(c.fields)
	c.response, c.overLimit = nil, false
	c.calls.Put(c)
}
