package registration

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// maxClasses bounds the webhooks for listed namespaces: API servers evaluate each of them for every write.
const maxClasses = 16

// class is a set of namespaces that share a webhook.
type class struct {
	number     int // from 1
	namespaces []string
	reach      reach
}

func (c class) name() string { return fmt.Sprintf("namespaces-%d", c.number) }

// classes groups the listed namespaces by the resources that policies limit there. If there are too many groups, it merges those that are
// most alike, so that a policy that names everything does not widen the webhook of namespaces that limit little.
func (r *reaches) classes() []class {
	byResources := map[string]*class{}
	for _, namespace := range slices.Sorted(maps.Keys(r.listed)) {
		whole := r.listed[namespace].union(r.namespaced)
		key := whole.resources.key()
		if byResources[key] == nil {
			byResources[key] = &class{reach: whole}
		}
		c := byResources[key]
		c.namespaces, c.reach = append(c.namespaces, namespace), c.reach.union(whole)
	}
	all := make([]class, 0, len(byResources))
	for _, c := range byResources {
		all = append(all, *c)
	}
	slices.SortFunc(all, func(a, b class) int { return compareBreadth(a.reach, b.reach, a.namespaces[0], b.namespaces[0]) })
	all = mergeClasses(all)
	slices.SortFunc(all, func(a, b class) int { return cmp.Compare(a.namespaces[0], b.namespaces[0]) })
	for i := range all {
		all[i].number = i + 1
	}
	return all
}

// mergeClasses merges neighbours in the order of breadth until there are at most maxClasses.
func mergeClasses(all []class) []class {
	costs := make([]int, max(0, len(all)-1)) // of merging i with i+1
	for i := range costs {
		costs[i] = mergeCost(all[i], all[i+1])
	}
	for len(all) > maxClasses {
		i := slices.Index(costs, slices.Min(costs))
		merged := class{reach: all[i].reach.union(all[i+1].reach), namespaces: slices.Concat(all[i].namespaces, all[i+1].namespaces)}
		slices.Sort(merged.namespaces)
		all[i] = merged
		all, costs = slices.Delete(all, i+1, i+2), slices.Delete(costs, i, i+1)
		if i < len(costs) {
			costs[i] = mergeCost(all[i], all[i+1])
		}
		if i > 0 {
			costs[i-1] = mergeCost(all[i-1], all[i])
		}
	}
	return all
}

// mergeCost estimates how many calls more a common webhook causes.
func mergeCost(a, b class) int {
	return len(a.namespaces)*b.reach.resources.minus(a.reach.resources).breadth() +
		len(b.namespaces)*a.reach.resources.minus(b.reach.resources).breadth()
}

// The estimated numbers of API groups, and of resources in a group, that a wildcard stands for.
const (
	groupsOfWildcard    = 32
	resourcesOfWildcard = 16
)

// breadth estimates the number of resources and operations.
func (r resources) breadth() (n int) {
	for res, ops := range r {
		one := len(ops.list())
		if res.group == wildcard {
			one *= groupsOfWildcard
		}
		plural, sub, _ := strings.Cut(res.name, "/")
		if plural == wildcard {
			one *= resourcesOfWildcard
		}
		if sub == wildcard {
			one *= 2
		}
		n += one
	}
	return n
}

// compareBreadth compares by breadth, and then the two names.
func compareBreadth(a, b reach, nameOfA, nameOfB string) int {
	return cmp.Or(cmp.Compare(a.resources.breadth(), b.resources.breadth()), cmp.Compare(nameOfA, nameOfB))
}

// key is equal for equal resources.
func (r resources) key() string {
	lines := make([]string, 0, len(r))
	for res, ops := range r {
		lines = append(lines, fmt.Sprintf("%s %s %d", res.group, res.name, ops))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}
