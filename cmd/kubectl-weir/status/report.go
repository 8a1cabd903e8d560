package status

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-dev/weir/api/v1alpha1"
)

// Version is the version of the JSON form of a report.
const Version = "v1"

// Report is the state of an installation. Its JSON form is documented: fields are added and never renamed or removed.
type Report struct {
	Version   string `json:"version"`
	Namespace string `json:"namespace,omitempty"` // set if the report is about one namespace
	// Healthy is true if there is no problem and everything was read.
	Healthy  bool      `json:"healthy"`
	Operator *Operator `json:"operator,omitempty"`
	Webhooks []Webhook `json:"webhooks,omitempty"`
	Limiters []Limiter `json:"limiters"`
	Policies Policies  `json:"policies"`
	// Bypasses are active. Those of Limiters in BypassesUnknown are missing.
	Bypasses        []Bypass        `json:"bypasses"`
	BypassesUnknown []UnknownBypass `json:"bypassesUnknown,omitempty"`
	Problems        []Problem       `json:"problems"`
	Unread          []Unread        `json:"unread,omitempty"`
}

// Problem is something to repair.
type Problem struct {
	// Object is, for example, Limiter weir-system/default.
	Object string `json:"object"`
	// Reason is the reason of a condition. It is empty if no condition has the problem.
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message"`
	Do      string `json:"do"`
	Runbook string `json:"runbook"` // a file in docs/runbooks
}

// New summarizes the objects. The order of the objects does not change the report.
func New(o *Objects) *Report {
	r := &Report{Version: Version, Namespace: o.Namespace, Limiters: []Limiter{}, Problems: []Problem{}, Bypasses: []Bypass{}, Unread: o.Unread}
	r.addOperator(o)
	r.addWebhooks(o)
	r.addLimiters(o)
	r.addPolicies(o)
	r.Healthy = len(r.Problems) == 0 && len(r.Unread) == 0
	return r
}

func (r *Report) problem(object, reason, message string, a advice) {
	r.Problems = append(r.Problems, Problem{Object: object, Reason: reason, Message: message, Do: a.do, Runbook: "docs/runbooks/" + a.page + ".md"})
}

// isUnread returns whether the user cannot read the resource.
func (o *Objects) isUnread(resource string) bool { return isUnread(o.Unread, resource) }

func isUnread(list []Unread, resource string) bool {
	return slices.ContainsFunc(list, func(u Unread) bool { return u.Resource == resource })
}

// readyOf returns the condition Ready of an object, as conditionOf does.
func readyOf(generation int64, conditions []metav1.Condition) metav1.Condition {
	return conditionOf(v1alpha1.ConditionReady, generation, conditions)
}

// conditionOf returns a condition of an object. It is Unknown, and its reason is empty, if the operator has not processed this generation.
func conditionOf(name string, generation int64, conditions []metav1.Condition) metav1.Condition {
	c := meta.FindStatusCondition(conditions, name)
	if c == nil || c.ObservedGeneration < generation {
		return metav1.Condition{Status: metav1.ConditionUnknown, Message: "the operator has not processed this generation"}
	}
	return *c
}

// reasonIfTrue returns the reason of a condition that is true, and "" otherwise.
func reasonIfTrue(conditions []metav1.Condition, name string) string {
	if c := meta.FindStatusCondition(conditions, name); c != nil && c.Status == metav1.ConditionTrue {
		return c.Reason
	}
	return ""
}
