package registration

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	"github.com/weir-dev/weir/controllers/deployment"
	"github.com/weir-dev/weir/limiter/rules"
)

const (
	// mostRules bounds the rules of a webhook, which an API server goes through for every write.
	maxRules = 64
	// mostResources bounds the resources of a rule.
	maxResources = 256
)

// wildcard is any group, or any resource; subresources stand behind a slash.
const wildcard = "*"

// asked is what a webhook is asked about.
type webhookRules struct {
	// namespaced is written in namespaces only, everywhere outside of them, too.
	namespaced, everywhere resources
	scope                  scope
	policies               int // that speak of it
}

func (a webhookRules) empty() bool { return len(a.namespaced) == 0 && len(a.everywhere) == 0 }

// resources are what is written, and how.
type resources map[resource]operations

type resource struct{ group, name string } // the name with its subresource: "deployments/scale"

// operations are a set of them.
type operations uint8

const (
	creates operations = 1 << iota
	updates
	deletes
	connects
)

// askedOf is what some of the rules may match and is not exempt.
func newWebhookRules(set []rules.Rule, exempt deployment.Exemptions) webhookRules {
	a := webhookRules{namespaced: resources{}, everywhere: resources{}}
	for i := range set {
		match := set[i].Match.Kubernetes
		if match == nil {
			continue
		}
		reach := scopeOf(&set[i], exempt)
		if reach.empty() {
			continue
		}
		a.policies++
		a.scope = a.scope.union(reach)
		if reach.cluster {
			a.everywhere.add(match.Resources)
		} else {
			a.namespaced.add(match.Resources)
		}
	}
	a.everywhere = a.everywhere.minus(nil)
	a.namespaced = a.namespaced.minus(a.everywhere)
	return a
}

func (r resources) add(more []rules.KubernetesResources) {
	for _, of := range more {
		var how operations
		for _, operation := range of.Operations {
			how |= operationOf(admissionv1.OperationType(operation))
		}
		for _, group := range of.APIGroups {
			for _, name := range of.Resources {
				if how != 0 {
					r[resource{group, name}] |= how
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

// without leaves out what wildcards of r itself say already, and what others do.
func (r resources) minus(others resources) resources {
	kept := resources{}
	for what, how := range r {
		for _, wider := range what.coveredBy() {
			if wider != what {
				how &^= r[wider]
			}
			how &^= others[wider]
		}
		if how != 0 {
			kept[what] = how
		}
	}
	return kept
}

// wider are the resource itself and all that speak of it, too. An open name does not speak of subresources, and an open
// subresource speaks of the resource itself.
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

// rules are the same for the same resources: each group, resource and operation once, as few rules as that takes.
func (a webhookRules) list() []admissionv1.RuleWithOperations {
	all := slices.Concat(a.everywhere.rules(admissionv1.AllScopes), a.namespaced.rules(admissionv1.NamespacedScope))
	tooMany := func(rule admissionv1.RuleWithOperations) bool { return len(rule.Resources) > maxResources }
	if len(all) <= maxRules && !slices.ContainsFunc(all, tooMany) {
		return all
	}
	return slices.Concat(a.everywhere.widened(admissionv1.AllScopes), a.namespaced.widened(admissionv1.NamespacedScope))
}

// rules bring what is written the same way together: resources of a group first, then groups with the same resources.
func (r resources) rules(scope admissionv1.ScopeType) []admissionv1.RuleWithOperations {
	type ofGroup struct {
		group string
		how   operations
	}
	names := map[ofGroup][]string{}
	for what, how := range r {
		key := ofGroup{what.group, how}
		names[key] = append(names[key], what.name)
	}
	type ofNames struct {
		how   operations
		names string
	}
	groups := map[ofNames][]string{}
	for key, list := range names {
		slices.Sort(list)
		same := ofNames{key.how, strings.Join(list, "\n")}
		if key.group == wildcard { // which an API server takes alone only
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
		all = append(all, ruleOf(list, strings.Split(text, "\n"), same.how, scope))
	}
	slices.SortFunc(all, func(a, b admissionv1.RuleWithOperations) int {
		return cmp.Or(slices.Compare(a.APIGroups, b.APIGroups), slices.Compare(a.Resources, b.Resources), slices.Compare(a.Operations, b.Operations))
	})
	return all
}

// wide is one rule that says more: all resources in all groups, or, if those are too many, everything. A limiter lets
// pass what no policy limits.
func (r resources) widened(scope admissionv1.ScopeType) []admissionv1.RuleWithOperations {
	if len(r) == 0 {
		return nil
	}
	names := map[string]bool{}
	var how operations
	for what, o := range r {
		names[what.name] = true
		how |= o
	}
	list := slices.Sorted(maps.Keys(names))
	if len(list) > maxResources || slices.ContainsFunc(list, func(name string) bool { return strings.Contains(name, wildcard) }) {
		list = []string{"*/*"}
	}
	return []admissionv1.RuleWithOperations{ruleOf([]string{wildcard}, list, how, scope)}
}

func ruleOf(groups, names []string, how operations, scope admissionv1.ScopeType) admissionv1.RuleWithOperations {
	return admissionv1.RuleWithOperations{
		Operations: how.list(),
		Rule:       admissionv1.Rule{APIGroups: groups, APIVersions: []string{wildcard}, Resources: names, Scope: new(scope)},
	}
}
