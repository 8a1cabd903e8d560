package ratelimitservice

import (
	"fmt"
	"slices"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
)

// part is a descriptor of the first level of a domain. In Envoy Gateway, a domain is a listener, and a descriptor of the first level is a
// route: one owner of a route must not change the limits of the others.
type part struct {
	*ratelimitv3.RateLimitDescriptor

	number   int  // in the configuration that was received; see problem.number
	size     int  // the number of descriptors in it
	previous bool // it is of the previous configuration
}

// name returns the key and the value, such as "tenant=acme", or the key if both are equal.
func (p *part) name() string {
	if value := p.GetValue(); value != "" && value != p.GetKey() {
		return p.GetKey() + "=" + value
	}
	return p.GetKey()
}

// partial is the configuration of a domain without its invalid parts.
type partial struct {
	config  *ratelimitv3.RateLimitConfig
	content *compiled
}

// compileValid compiles the valid parts of a configuration. In place of an invalid part, it compiles the one with the same key and value in
// previous, if there is one. The problems describe the invalid parts. The result is nil if the domain has to keep its previous limits as they are.
func compileValid(config, previous *ratelimitv3.RateLimitConfig, options Options) (result *partial, problems []error) {
	parts := partsOf(config)
	total := len(parts)
	var kept []string
	for candidate := config; ; candidate = configOf(config, parts) {
		content, found := compileDomain(candidate, options)
		if len(found) == 0 {
			if len(content.rules) == 0 && len(parts) < total && previous == nil {
				return nil, problems // a domain is not active before it has limits
			}
			for _, note := range kept {
				content.note(note)
			}
			return &partial{candidate, content}, problems
		}
		invalid := make([]bool, len(parts))
		for _, p := range found {
			i, number := find(parts, p.number)
			if i < 0 {
				return nil, append(problems, fmt.Errorf("domain %s: %s", config.GetDomain(), p.message))
			}
			invalid[i] = true
			if !parts[i].previous {
				problems = append(problems, fmt.Errorf("descriptor %d of domain %s, in %s: %s", number, config.GetDomain(), parts[i].name(), p.message))
			}
		}
		parts = replace(parts, invalid, previous, &kept)
	}
}

// replace replaces the invalid parts by those of the previous configuration, and removes what has no replacement. So compileValid ends: each
// part is replaced at most once and removed at most once.
func replace(parts []part, invalid []bool, previous *ratelimitv3.RateLimitConfig, notes *[]string) (valid []part) {
	for i, p := range parts {
		if invalid[i] && !p.previous {
			old := slices.IndexFunc(previous.GetDescriptors(), func(d *ratelimitv3.RateLimitDescriptor) bool {
				return d.GetKey() == p.GetKey() && d.GetValue() == p.GetValue()
			})
			if old >= 0 {
				p.RateLimitDescriptor, p.previous, invalid[i] = previous.GetDescriptors()[old], true, false
				p.size = count(p.RateLimitDescriptor)
				*notes = append(*notes, "the new limits of "+p.name()+" are invalid, and the previous limits stay active")
			}
		}
		if invalid[i] {
			*notes = append(*notes, "the limits of "+p.name()+" are invalid and left out")
			continue
		}
		valid = append(valid, p)
	}
	return valid
}

func partsOf(config *ratelimitv3.RateLimitConfig) (parts []part) {
	number := 1
	for _, d := range config.GetDescriptors() {
		p := part{RateLimitDescriptor: d, number: number, size: count(d)}
		parts = append(parts, p)
		number += p.size
	}
	return parts
}

// count returns the number of descriptors in d and below.
func count(d *ratelimitv3.RateLimitDescriptor) int {
	n := 1
	for _, child := range d.GetDescriptors() {
		n += count(child)
	}
	return n
}

// find returns the index of the part that contains descriptor number n of all parts, and its number in the configuration that was
// received. The index is -1 if no part contains it.
func find(parts []part, n int) (index, number int) {
	first := 1
	for i := range parts {
		if n >= first && n < first+parts[i].size {
			return i, parts[i].number + n - first
		}
		first += parts[i].size
	}
	return -1, 0
}

func configOf(original *ratelimitv3.RateLimitConfig, parts []part) *ratelimitv3.RateLimitConfig {
	config := &ratelimitv3.RateLimitConfig{Name: original.GetName(), Domain: original.GetDomain()}
	for i := range parts {
		config.Descriptors = append(config.Descriptors, parts[i].RateLimitDescriptor)
	}
	return config
}
