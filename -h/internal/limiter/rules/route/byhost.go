package route

import (
	"fmt"
	"strings"

	"github.com/weir-dev/weir/go/internal/limiter/rules"
	"github.com/weir-dev/weir/go/internal/limiter/rules/pattern"
)

// byHost finds values by host names.
type byHost[T any] struct {
	exact     map[string]T
	wildcard  map[string]T    // by ".shop.example" for "*.shop.example"
	wildcards pattern.Lengths // of the keys of wildcard
	any       *T
}

func (h *byHost[T]) add(host string, value T) error {
	suffix, isWildcard := strings.CutPrefix(host, "*")
	switch {
	case host == "":
		h.any = &value
		return nil
	case len(suffix) > pattern.MaxHost:
		return fmt.Errorf("host %q is longer than %d bytes", rules.Shorten(host), pattern.MaxHost)
	case isWildcard:
		if h.wildcard == nil {
			h.wildcard = map[string]T{}
		}
		h.wildcard[suffix], h.wildcards = value, h.wildcards.With(len(suffix))
	default:
		if h.exact == nil {
			h.exact = map[string]T{}
		}
		h.exact[host] = value
	}
	return nil
}

// find returns the value for the most specific name, and how specific it is, -1 without one. A client can send a host that is longer than every
// name, and a wildcard matches it.
func (h *byHost[T]) find(host string) (value T, specificity int) {
	if len(host) <= pattern.MaxHost {
		if value, found := h.exact[host]; found {
			return value, pattern.MaxHost + 1
		}
	}
	for i := max(1, len(host)-h.wildcards.Longest()); len(h.wildcard) > 0 && i < len(host); i++ { // "*" matches at least one character
		if host[i] != '.' || !h.wildcards.Has(len(host)-i) {
			continue
		}
		if value, found := h.wildcard[host[i:]]; found {
			return value, len(host) - i
		}
	}
	if h.any == nil {
		return value, -1
	}
	return *h.any, 0
}
