// Package envoyratelimit converts the configuration of Envoy's rate limit service (envoyproxy/ratelimit) to policies.
//
// A configuration is a tree. A descriptor of a request descends one level for each of its entries: to the node with the same key and value,
// otherwise to the first node whose value with wildcards matches, otherwise to the node with the key and no value. Only the limit of the node
// that the last entry reaches applies. Each such limit becomes one policy, which leaves out the values that another node of its level
// takes.
package envoyratelimit

import (
	"fmt"
	"slices"
	"strings"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/importer"
	"github.com/weir-dev/weir/limiter/rules/credentials"
)

// domain is the content of one or more files with the same domain.
type domain struct {
	place       importer.Place
	name        string
	descriptors []*descriptor
}

// descriptor is a node of the tree.
type descriptor struct {
	importer.Place

	key, value string // without a value, every value matches
	exact      bool   // a "*" in the value is no wildcard
	limit      *limit
	shadow     bool
	quota      bool               // denies only together with all other quota descriptors of the request
	shared     bool               // all values that a wildcard matches share one counter (share_threshold)
	algorithm  v1alpha1.Algorithm // of the limit, from metadata; empty for that of the options
	children   []*descriptor
	number     int // among the values of the key in the list, from 1
}

func (d *descriptor) isWildcard() bool { return !d.exact && strings.Contains(d.value, "*") }

// name returns, for example, "tenant=acme", "tenant", or "rule-0=" for an exact value that is equal to the key. Policies have the name, and with
// them metrics and logs, so it does not contain credentials: "api_key=(value 2)".
func (d *descriptor) name() string {
	switch {
	case d.value == "":
		return d.key
	case d.exact:
		return d.key + "="
	case (credentials.Names{}).Name(d.key), importer.IsCredential(d.value):
		return fmt.Sprintf("%s=(value %d)", d.key, d.number)
	}
	return d.key + "=" + d.value
}

// joined returns the text that the service compares, such as tenant_acme.
func (d *descriptor) joined() string {
	if d.value == "" {
		return d.key
	}
	return d.key + "_" + d.value
}

// otherKeys returns the other keys in a list whose requests the wildcard takes too, because the service compares tenant_id_7 with tenant_*.
// It leaves out keys of which the wildcard takes only some values, such as tenant of the wildcard tenant_id=7*.
func (d *descriptor) otherKeys(list []*descriptor) (keys []string) {
	if !d.isWildcard() {
		return nil
	}
	prefix, _, _ := strings.Cut(d.joined(), "*")
	for _, other := range list {
		if other.key != d.key && strings.HasPrefix(other.key+"_", prefix) && !slices.Contains(keys, other.key) {
			keys = append(keys, other.key)
		}
	}
	return keys
}

// limit is a rate_limit block.
type limit struct {
	importer.Place

	name      string
	replaces  []string
	unlimited bool
	requests  uint32
	unit      unit
}

// unit is a window of the service. All are aligned to the Unix epoch.
type unit struct {
	name   string
	window string // of a policy
}

// units lists the units. A month has 30 days and a year has 365 days.
func units() []unit {
	return []unit{
		{"second", "1s"},
		{"minute", "1m"},
		{"hour", "1h"},
		{"day", "1d"},
		{"week", "7d"},
		{"month", "30d"},
		{"year", "365d"},
	}
}
