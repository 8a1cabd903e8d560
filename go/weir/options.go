package weir

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-dev/weir/go/httplimit"
	"github.com/weir-dev/weir/limiter"
)

// Option changes how a Limiter works.
type Option func(*options)

type options struct {
	domain   string
	log      *slog.Logger
	registry prometheus.Registerer // nil without
	hashKey  []byte
	prefix   string
	replicas int
	memory   int
	timeout  time.Duration
	gate     []httplimit.Option
}

func newOptions(list []Option) (options, error) {
	o := options{log: slog.Default(), prefix: "weir:", replicas: 1, memory: 64 << 20, timeout: 50 * time.Millisecond}
	for _, option := range list {
		if option != nil {
			option(&o)
		}
	}
	switch {
	case o.log == nil:
		return o, errors.New("the option Log must not be nil")
	case o.replicas < 1:
		return o, fmt.Errorf("the option Replicas is %d and must be at least 1", o.replicas)
	case o.memory < 1<<20:
		return o, fmt.Errorf("the option Memory is %d bytes and must be at least %d", o.memory, 1<<20)
	case o.timeout < time.Millisecond:
		return o, fmt.Errorf("the option Timeout is %v and must be at least 1ms", o.timeout)
	case isNilPointer(o.registry):
		return o, fmt.Errorf("the option Metrics has a nil %T", o.registry)
	case o.prefix == "":
		return o, errors.New("the option Prefix must not be empty")
	}
	return o, nil
}

// isNilPointer reports whether an interface has a pointer that is nil.
func isNilPointer(value any) bool {
	v := reflect.ValueOf(value)
	return v.Kind() == reflect.Pointer && v.IsNil()
}

// Domain sets the domain of the requests of this program: the namespace whose policies apply. It is necessary only if the policies are in several
// namespaces, or are those of a limiter that NewRemote calls.
func Domain(name string) Option { return func(o *options) { o.domain = name } }

// Log sets the logger; the default is [slog.Default]. It receives outages of Redis, invalid edits of policies, and requests without a decision.
func Log(log *slog.Logger) Option { return func(o *options) { o.log = log } }

// Metrics registers the metrics of the Limiter until Close. Two Limiters need registries with different labels, see
// [prometheus.WrapRegistererWith].
func Metrics(registry prometheus.Registerer) Option {
	return func(o *options) { o.registry = registry }
}

// HashKey sets the key with which API keys and other credentials are hashed, 32 to 4096 random bytes. NewRedis requires it for policies
// that count by credentials, and all instances of the program must have the same. NewMemory draws one without this option.
func HashKey(key []byte) Option { return func(o *options) { o.hashKey = key } }

// Prefix sets the prefix of the keys in Redis; the default is "weir:". Programs with the same prefix, and policies of the same names, share
// counters, also with `weir serve`.
func Prefix(prefix string) Option { return func(o *options) { o.prefix = prefix } }

// Replicas sets the number of instances of the program that share the counters in Redis; the default is 1. While Redis is unavailable, each
// instance decides on its share of the limits: with too small a number, they admit more together.
func Replicas(n int) Option { return func(o *options) { o.replicas = n } }

// Memory bounds the memory of the counters in this process in bytes; the default is 64 MiB. If it is full, the counters that were used the longest time
// ago start over.
func Memory(bytes int) Option { return func(o *options) { o.memory = bytes } }

// Timeout bounds how long a decision waits for Redis; the default is 50 ms. With NewRemote, the default is 200 ms.
func Timeout(d time.Duration) Option { return func(o *options) { o.timeout = d } }

// Gate sets options of the [httplimit.Gate] that applies decisions, for example [httplimit.Style] or [httplimit.MaxDelay].
func Gate(list ...httplimit.Option) Option {
	return func(o *options) { o.gate = append(o.gate, list...) }
}

// key returns the hash key, nil without one.
func (o *options) key() (*limiter.HashKey, error) {
	if o.hashKey == nil {
		return nil, nil //nolint:nilnil // there is no key
	}
	key, err := limiter.NewHashKey(o.hashKey)
	if err != nil {
		return nil, fmt.Errorf("the option HashKey: %w", err)
	}
	return key, nil
}

// namesOf lists names in order.
func namesOf(set map[string]bool) string {
	if len(set) == 0 {
		return "(there is no policy)"
	}
	return strings.Join(slices.Sorted(maps.Keys(set)), ", ")
}
