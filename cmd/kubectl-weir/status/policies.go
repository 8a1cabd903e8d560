package status

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/limiter/rules/policyname"
)

// namedPolicies is the number of policies that a problem names.
const namedPolicies = 3

// Policies are the states of RateLimitPolicies and ClusterRateLimitPolicies.
type Policies struct {
	Total    int `json:"total"`
	Ready    int `json:"ready"`
	Degraded int `json:"degraded"` // of them, with the condition Degraded
	// Overridden is the number with the condition Overridden. It is not a problem.
	Overridden int `json:"overridden"`
	// Enforced is the number with the condition Enforced: a replica has decided a request under their generation.
	Enforced int `json:"enforced"`
	// NotReady counts the other policies by the reason of Ready. The reason is "" if the operator has not processed the generation.
	NotReady []ReasonCount `json:"notReady"`
	// NotEnforced groups the policies that are Ready and not Enforced by the reason of Enforced. They are not a problem: requests can follow.
	// The reason is "" if the operator has not reported it for the generation.
	NotEnforced []NotEnforced `json:"notEnforced"`
	// List has each policy that is not Ready, or PartiallyProgrammed.
	List []Policy `json:"list"`
}

// ReasonCount is a number of policies with a reason.
type ReasonCount struct {
	Reason string `json:"reason"`
	Count  int    `json:"count"`
}

// NotEnforced is the policies with a reason of the condition Enforced, which is not True, in the order of their names.
type NotEnforced struct {
	Reason   string   `json:"reason"`
	Policies []string `json:"policies"`
}

// Policy is a policy with a problem. Policy is namespace/name, or _cluster/name of a ClusterRateLimitPolicy.
type Policy struct {
	Policy  string `json:"policy"`
	Ready   bool   `json:"ready"`
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message"`
	// Enforced is the status of the condition Enforced: True, False or Unknown.
	Enforced metav1.ConditionStatus `json:"enforced"`
}

// group is the policies with the same reason of a condition.
type group struct {
	names   []string
	message string // of the first policy
}

func (r *Report) addPolicies(o *Objects) {
	r.Policies.NotReady, r.Policies.NotEnforced, r.Policies.List = []ReasonCount{}, []NotEnforced{}, []Policy{}
	degraded, notEnforced := map[string]*group{}, map[string]*group{}
	for i := range o.Policies {
		p := &o.Policies[i]
		r.addPolicy(policyname.Join(p.Namespace, p.Name), p.Generation, p.Status.Conditions, degraded, notEnforced)
	}
	for i := range o.ClusterPolicies {
		p := &o.ClusterPolicies[i]
		r.addPolicy(policyname.Join(policyname.Cluster, p.Name), p.Generation, p.Status.Conditions, degraded, notEnforced)
	}
	slices.SortFunc(r.Policies.List, func(a, b Policy) int { return strings.Compare(a.Policy, b.Policy) })
	reasons := map[string]*group{}
	for _, p := range r.Policies.List {
		add(reasons, p.Reason, p.Policy, p.Message)
	}
	for _, reason := range slices.Sorted(maps.Keys(reasons)) {
		if reason != v1alpha1.ReasonPartiallyProgrammed {
			r.Policies.NotReady = append(r.Policies.NotReady, ReasonCount{reason, len(reasons[reason].names)})
		}
		r.policyProblem(reason, reasons[reason], adviceForPolicy(reason))
	}
	for _, reason := range slices.Sorted(maps.Keys(notEnforced)) {
		r.Policies.NotEnforced = append(r.Policies.NotEnforced, NotEnforced{reason, slices.Sorted(slices.Values(notEnforced[reason].names))})
	}
	for _, reason := range slices.Sorted(maps.Keys(degraded)) {
		r.policyProblem(reason, degraded[reason], adviceForDegraded(reason))
	}
}

func (r *Report) addPolicy(name string, generation int64, conditions []metav1.Condition, degraded, notEnforced map[string]*group) {
	ready, enforced := readyOf(generation, conditions), conditionOf(v1alpha1.ConditionEnforced, generation, conditions)
	r.Policies.Total++
	isReady := ready.Status == metav1.ConditionTrue
	if isReady {
		r.Policies.Ready++
	}
	if !isReady || ready.Reason == v1alpha1.ReasonPartiallyProgrammed {
		r.Policies.List = append(r.Policies.List, Policy{name, isReady, ready.Reason, ready.Message, enforced.Status})
	}
	switch {
	case enforced.Status == metav1.ConditionTrue:
		r.Policies.Enforced++
	case isReady:
		add(notEnforced, enforced.Reason, name, "")
	}
	if reasonIfTrue(conditions, v1alpha1.ConditionOverridden) != "" {
		r.Policies.Overridden++
	}
	for _, c := range conditions {
		if c.Type == v1alpha1.ConditionDegraded && c.Status == metav1.ConditionTrue {
			r.Policies.Degraded++
			add(degraded, c.Reason, name, c.Message)
		}
	}
}

func add(groups map[string]*group, reason, name, message string) {
	if groups[reason] == nil {
		groups[reason] = &group{}
	}
	g := groups[reason]
	g.names = append(g.names, name)
	if slices.Min(g.names) == name {
		g.message = message
	}
}

func (r *Report) policyProblem(reason string, g *group, a advice) {
	slices.Sort(g.names)
	named := strings.Join(g.names[:min(len(g.names), namedPolicies)], ", ")
	object := "Policy " + named
	if len(g.names) > 1 {
		object = fmt.Sprintf("%d policies: %s", len(g.names), named)
	}
	if len(g.names) > namedPolicies {
		object += ", …"
	}
	message := g.message
	if len(g.names) > 1 {
		message = "for example " + g.names[0] + ": " + message
	}
	r.problem(object, reason, cmp.Or(message, "no message"), a)
}
