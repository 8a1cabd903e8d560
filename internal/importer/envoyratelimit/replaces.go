package envoyratelimit

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/weir-dev/weir/internal/importer"
)

// replaceable returns the places of the limits in list and below that another limit can replace, by their names. An unlimited limit is not
// one of them: it has no effect that ends. Nor is a limit that never applies.
func replaceable(list []*descriptor) map[string][]importer.Place {
	named := map[string][]importer.Place{}
	for _, d := range list {
		if newStep(d, list).unreachable() {
			continue
		}
		if d.limit != nil && d.limit.name != "" && !d.limit.unlimited {
			named[d.limit.name] = append(named[d.limit.name], d.limit.Place)
		}
		below := replaceable(d.children)
		for _, name := range slices.Sorted(maps.Keys(below)) {
			named[name] = append(named[name], below[name]...)
		}
	}
	return named
}

// maxPlaces bounds the replaced limits of one name in a finding.
const maxPlaces = 3

// replaces reports whether a limit replaces another one of the domain, with a finding for what it replaces. No policy expresses this: a
// descriptor reaches one limit, so the service always replaces the limit of another descriptor, and spec.replaces of a policy applies to the
// descriptors that the policy matches.
func (c *converter) replaces(l *limit) bool {
	var replaced []string
	for _, name := range l.replaces {
		places := c.named[name]
		if len(places) == 0 {
			c.out.Add(l.Place, importer.Note, "replaces has no effect for %s: the domain has no limit of this name that applies", name)
			continue
		}
		var at []string
		for _, place := range places[:min(len(places), maxPlaces)] {
			at = append(at, fmt.Sprintf("%s:%d", place.File, place.Line))
		}
		if more := len(places) - maxPlaces; more > 0 {
			at = append(at, fmt.Sprintf("%d more", more))
		}
		replaced = append(replaced, name+" at "+strings.Join(at, " and "))
	}
	if len(replaced) == 0 {
		return false
	}
	c.out.Add(l.Place, importer.NotImported, "replaces switches off limits of other descriptors of the request (%s), but spec.replaces of a "+
		"policy applies only to a descriptor that the policy itself matches; remove replaces, or leave the values out of those limits",
		strings.Join(replaced, ", "))
	return true
}
