package replaycommand

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"reflect"
	"strings"
	"sync/atomic"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/accesslog/format"
	"github.com/weir-dev/weir/internal/policyfile"
	"github.com/weir-dev/weir/internal/replay/result"
	"github.com/weir-dev/weir/limiter/server/address"
)

// limiterIn returns the Limiter of --limiter, or without the flag the Limiter, among those in files, and nil if they have no such Limiter. Several Limiters
// that differ are an error.
func (f *replayFlags) limiterIn(limiters []policyfile.Limiter) (chosen *v1alpha1.Limiter, err error) {
	for i := range limiters {
		l := &limiters[i]
		if f.limiter != "" && l.Name != f.limiter {
			continue
		}
		var object v1alpha1.Limiter
		if err := json.Unmarshal(l.JSON, &object); err != nil {
			return nil, fmt.Errorf("%s: read Limiter %s: %w", l.File, l.Name, err)
		}
		if chosen == nil {
			chosen = &object
		} else if !reflect.DeepEqual(settingsOf(chosen), settingsOf(&object)) {
			return nil, fmt.Errorf("the Limiters %s/%s and %s have different settings: choose one with --limiter", chosen.Namespace, chosen.Name, l.Name)
		}
	}
	return chosen, nil
}

// settingsOf returns what a replay reads of a Limiter.
func settingsOf(l *v1alpha1.Limiter) []any {
	return []any{l.Namespace, l.Spec.Identity, l.Spec.KubernetesThrottle}
}

// noteDifference notes that the policies before a change are replayed with clients of the Limiter after it.
func (l *loaded) noteDifference(after, before *v1alpha1.Limiter) {
	if before == nil || after != nil && reflect.DeepEqual(after.Spec.Identity.IP, before.Spec.Identity.IP) {
		return
	}
	l.notes = append(l.notes, "The addresses of clients are those that the Limiter in --policies finds, also for --policies-before.")
}

// clients finds the addresses of clients in a log as a limiter does in requests.
type clients struct {
	trusted *address.Trusted
	proxies *address.Networks
	hidden  atomic.Int64 // requests of proxies whose header is not in the log
}

// clientsOf returns the clients of a Limiter, nil without trusted proxies.
func clientsOf(l *v1alpha1.Limiter) (*clients, error) {
	table, field := l.Spec.Identity.IP, address.XForwardedFor
	if len(table.TrustedProxies) == 0 {
		return nil, nil //nolint:nilnil // nil reads the address that the log has
	}
	if table.Header != "" {
		var err error
		if field, err = address.ParseField(string(table.Header)); err != nil {
			return nil, fmt.Errorf("spec.identity.ip.header: %w", err)
		}
	}
	networks := make([]string, len(table.TrustedProxies))
	for i, network := range table.TrustedProxies {
		networks[i] = string(network)
	}
	proxies, err := address.ParseNetworks(networks)
	if err != nil {
		return nil, fmt.Errorf("spec.identity.ip.trustedProxies: %w", err)
	}
	return &clients{trusted: address.NewTrusted(field, proxies), proxies: proxies}, nil
}

// set sets how a log is read. c can be nil.
func (c *clients) set(settings *format.Settings) {
	if c == nil {
		return
	}
	if field := c.trusted.Field(); field != address.XForwardedFor {
		settings.ClientHeader = strings.ToLower(string(field))
	}
	settings.ClientOf = func(source netip.Addr, value string) netip.Addr {
		if value == "" && c.proxies.Contains(source) {
			c.hidden.Add(1)
		}
		return c.trusted.ClientOfLines(source, []string{value})
	}
}

// begin forgets the lines by which formats were detected. c can be nil.
func (c *clients) begin() {
	if c != nil {
		c.hidden.Store(0)
	}
}

// note notes that the log does not have the clients. c can be nil.
func (c *clients) note(found *result.Result) {
	if c == nil || c.hidden.Load() == 0 {
		return
	}
	found.Notes = append(found.Notes, fmt.Sprintf("%d requests come from a trusted proxy, and the log does not have their %s: they are counted by the "+
		"address of the proxy. Add the header to the log, or map it with --map.", c.hidden.Load(), c.trusted.Field()))
}
