package ratelimitservice

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"google.golang.org/protobuf/proto"

	"github.com/weir-dev/weir/limiter/rules"
)

// Domains is the active configuration: for each domain the last valid one. It is not safe for concurrent use.
type Domains struct {
	options Options
	keep    time.Duration
	active  map[string]*domain
	changes []string
}

type domain struct {
	config  *ratelimitv3.RateLimitConfig
	content *compiled
	missing time.Time // since when the server does not list the domain; zero if it does
}

// NewDomains returns the configuration without domains. A domain that the server no longer lists stays active for keep: a server that has
// just started can list only some of its domains at first.
func NewDomains(options Options, keep time.Duration) *Domains {
	return &Domains{options: options, keep: keep, active: map[string]*domain{}}
}

// Update replaces the configuration. An invalid domain keeps its previous limits, and so does an invalid descriptor of the first level of a
// domain. The error describes them. All others are replaced. If complete is false, there are more domains than configs, which could not be
// read: then no domain counts as removed.
func (d *Domains) Update(now time.Time, configs []*ratelimitv3.RateLimitConfig, complete bool) error {
	var problems []error
	listed := map[string]bool{}
	for _, config := range configs {
		name := config.GetDomain()
		if listed[name] {
			problems = append(problems, fmt.Errorf("domain %s is listed twice; only the first applies", name))
			continue
		}
		listed[name] = true
		previous := d.active[name]
		if previous != nil && proto.Equal(previous.config, config) {
			previous.missing = time.Time{}
			continue
		}
		var enforced *ratelimitv3.RateLimitConfig
		if previous != nil {
			previous.missing, enforced = time.Time{}, previous.config
		}
		valid, invalid := compileValid(config, enforced, d.options)
		problems = append(problems, invalid...)
		if valid == nil {
			if previous != nil {
				d.note("domain %s: the new limits are invalid, and the previous limits stay active", name)
			}
			continue
		}
		for _, note := range valid.content.notes {
			d.note("domain %s: %s", name, note)
		}
		d.active[name] = &domain{config: valid.config, content: valid.content}
	}
	for _, name := range slices.Sorted(maps.Keys(d.active)) {
		domain := d.active[name]
		if !complete { // any domain can be in what could not be read
			domain.missing = time.Time{}
			continue
		}
		if !listed[name] && domain.missing.IsZero() {
			domain.missing = now
			if d.keep > 0 {
				d.note("domain %s is no longer in the configuration; its limits stay active for %v", name, d.keep)
			}
		}
	}
	d.Expire(now)
	return errors.Join(problems...)
}

// Expire removes the domains that the server has not listed for some time. It reports whether there are any.
func (d *Domains) Expire(now time.Time) (changed bool) {
	for _, name := range slices.Sorted(maps.Keys(d.active)) {
		if domain := d.active[name]; !domain.missing.IsZero() && now.Sub(domain.missing) >= d.keep {
			delete(d.active, name)
			d.note("domain %s has no limits any more, because it is no longer in the configuration", name)
			changed = true
		}
	}
	return changed
}

// NextExpiry returns when Expire will remove a domain; ok is false if it will not.
func (d *Domains) NextExpiry() (expiry time.Time, ok bool) {
	for _, domain := range d.active {
		if domain.missing.IsZero() {
			continue
		}
		if end := domain.missing.Add(d.keep); !ok || end.Before(expiry) {
			expiry, ok = end, true
		}
	}
	return expiry, ok
}

// Rules returns the rules of all domains, and their limits by policy.
func (d *Domains) Rules() (rules.Set, map[string]Limit) {
	set, limits := rules.Set{Rules: []rules.Rule{}}, map[string]Limit{}
	for _, domain := range d.active {
		set.Rules = append(set.Rules, domain.content.rules...)
		maps.Copy(limits, domain.content.limits)
	}
	slices.SortFunc(set.Rules, func(a, b rules.Rule) int { return strings.Compare(a.Policy, b.Policy) })
	if set.HashesIdentifiers() {
		set.HashKey = d.options.HashKey.ID()
	}
	return set, limits
}

// Count returns the number of domains.
func (d *Domains) Count() int { return len(d.active) }

// Changes returns what to log about the last calls of Update and Expire, and forgets it.
func (d *Domains) Changes() []string {
	changes := d.changes
	d.changes = nil
	return changes
}

func (d *Domains) note(format string, a ...any) {
	d.changes = append(d.changes, fmt.Sprintf(format, a...))
}
