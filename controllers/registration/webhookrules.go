package registration

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	"github.com/weir-dev/weir/limiter/exempt"
	"github.com/weir-dev/weir/limiter/rules"
)

const (
	// maxRules bounds the rules of a webhook: an API server evaluates them for every write.
	maxRules = 64
	// maxResources bounds the resources of one rule.
	maxResources = 256
)

// wildcard matches any group or any resource. A subresource follows a slash.
const wildcard = "*"

// resources maps resources to the operations on them.
type resources map[resource]operations

type resource struct{ group, name string } // the name with its subresource: "deployments/scale"

// operations is a set of operations.
type operations uint8

const (
	creates operations = 1 << iota
	updates
	deletes
	connects
)

// add adds what is not exempt.
func (r resources) add(more []rules.KubernetesResources) {
	for _, of := range more {
		var ops operations
		for _, operation := range of.Operations {
			if !exempt.Operation(operation) {
				ops |= operationOf(admissionv1.OperationType(operation))
			}
		}
		for _, group := range of.APIGroups {
			for _, name := range of.Resources {
				plural, sub, _ := strings.Cut(name, "/")
				if ops != 0 && !exempt.Resource(group, plural, sub) {
					r[resource{group, name}] |= ops
				}
			}
		}
	}
}

func operationOf(o admissionv1.OperationType) operations {
	switch o {
	case admissionv1.Create:
		return creates
	case admissionv1.Update:
		return updates
	case admissionv1.Delete:
		return deletes
	case admissionv1.Connect:
		return connects
	default:
		return 0
	}
}

func (o operations) list() (all []admissionv1.OperationType) {
	for _, one := range []admissionv1.OperationType{admissionv1.Create, admissionv1.Update, admissionv1.Delete, admissionv1.Connect} {
		if o&operationOf(one) != 0 {
			all = append(all, one)
		}
	}
	return all
}

// minus removes what wildcards in r itself, or entries in others, already cover.
func (r resources) minus(others resources) resources {
	kept := resources{}
	for res, ops := range r {
		for _, wider := range res.coveredBy() {
			if wider != res {
				ops &^= r[wider]
			}
			ops &^= others[wider]
		}
		if ops != 0 {
			kept[res] = ops
		}
	}
	return kept
}

// coveredBy returns the resource itself and all wildcards that cover it. A wildcard for the name, as in "*", does not cover
// subresources. A wildcard for the subresource, as in "pods/*", also covers the resource itself.
func (r resource) coveredBy() []resource {
	name, sub, has := strings.Cut(r.name, "/")
	names := []string{r.name, name + "/*", "*/*"}
	if has {
		names = append(names, "*/"+sub)
	} else {
		names = append(names, wildcard)
	}
	all := make([]resource, 0, 2*len(names))
	for _, n := range names {
		all = append(all, resource{r.group, n}, resource{wildcard, n})
	}
	return all
}

// union returns the resources of both, without what wildcards cover.
func (r resources) union(others resources) resources {
	both := maps.Clone(r)
	if both == nil {
		both = resources{}
	}
	for res, ops := range others {
		both[res] |= ops
	}
	return both.minus(nil)
}

// tooMany reports whether an API server would have to evaluate too much for every write.
func tooMany(all []admissionv1.RuleWithOperations) bool {
	return len(all) > maxRules ||
		slices.ContainsFunc(all, func(rule admissionv1.RuleWithOperations) bool { return len(rule.Resources) > maxResources })
}

// bounded returns as few rules as possible, in which each group, resource and operation occurs once. If that is too many, it returns one
// rule that covers more. It is deterministic.
func (r resources) bounded(scope admissionv1.ScopeType) []admissionv1.RuleWithOperations {
	if all := r.rules(scope); !tooMany(all) {
		return all
	}
	return r.widened(scope)
}

// rules groups resources with the same operations: first the resources of one group, then groups with the same resources.
func (r resources) rules(scope admissionv1.ScopeType) []admissionv1.RuleWithOperations {
	type ofGroup struct {
		group string
		ops   operations
	}
	names := map[ofGroup][]string{}
	for res, ops := range r {
		key := ofGroup{res.group, ops}
		names[key] = append(names[key], res.name)
	}
	type ofNames struct {
		ops   operations
		names string
	}
	groups := map[ofNames][]string{}
	for key, list := range names {
		slices.Sort(list)
		same := ofNames{key.ops, strings.Join(list, "\n")}
		if key.group == wildcard { // an API server accepts a wildcard group only on its own
			same.names = wildcard + "\n" + same.names
		}
		groups[same] = append(groups[same], key.group)
	}
	var all []admissionv1.RuleWithOperations
	for same, list := range groups {
		slices.Sort(list)
		text := same.names
		if list[0] == wildcard {
			text = strings.TrimPrefix(text, wildcard+"\n")
		}
		all = append(all, ruleOf(list, strings.Split(text, "\n"), same.ops, scope))
	}
	slices.SortFunc(all, func(a, b admissionv1.RuleWithOperations) int {
		return cmp.Or(slices.Compare(a.APIGroups, b.APIGroups), slices.Compare(a.Resources, b.Resources), slices.Compare(a.Operations, b.Operations))
	})
	return all
}

// widened returns one rule that covers more: the resources in all groups or, if there are too many, all resources. The limiter
// allows writes that no policy limits.
func (r resources) widened(scope admissionv1.ScopeType) []admissionv1.RuleWithOperations {
	if len(r) == 0 {
		return nil
	}
	names := map[string]bool{}
	var ops operations
	for res, o := range r {
		names[res.name] = true
		ops |= o
	}
	list := slices.Sorted(maps.Keys(names))
	if len(list) > maxResources || slices.ContainsFunc(list, func(name string) bool { return strings.Contains(name, wildcard) }) {
		list = []string{"*/*"}
	}
	return []admissionv1.RuleWithOperations{ruleOf([]string{wildcard}, list, ops, scope)}
}

func ruleOf(groups, names []string, ops operations, scope admissionv1.ScopeType) admissionv1.RuleWithOperations {
	return admissionv1.RuleWithOperations{
		Operations: ops.list(),
		Rule:       admissionv1.Rule{APIGroups: groups, APIVersions: []string{wildcard}, Resources: names, Scope: new(scope)},
	}
}
