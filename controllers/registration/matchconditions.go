package registration

import (
	"slices"
	"strconv"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	"github.com/weir-dev/weir/limiter/exempt"
)

// matchConditions exclude exempt writes, and writes of users that no policy matches. CEL treats an empty field as absent: reading it would
// be an error, and with failurePolicy Fail the API server would reject the write. Each expression therefore checks has() first.
func (e *entry) matchConditions(never exempt.Lists) []admissionv1.MatchCondition {
	all := []admissionv1.MatchCondition{
		{
			Name:       "exempt-groups",
			Expression: "!has(request.userInfo.groups) || !request.userInfo.groups.exists(group, group in " + celList(never.Groups) + ")",
		},
		{
			Name:       "exempt-users",
			Expression: "!has(request.userInfo.username) || !(request.userInfo.username in " + celList(never.Users) + ")",
		},
	}
	if mayBeExempt(e.rules) {
		all = append(all, admissionv1.MatchCondition{
			Name: "exempt-resources",
			Expression: "!(request.resource.group in " + celList(exempt.Groups()) + ") && (request.resource.group != \"\" || " +
				"request.resource.resource != \"nodes\" && " +
				"(request.resource.resource != \"pods\" || !has(request.subResource) || request.subResource != \"eviction\"))",
		})
	}
	if e.reach.resources.operations()&updates != 0 {
		all = append(all, admissionv1.MatchCondition{
			Name: "exempt-deleted-objects",
			Expression: "request.operation != \"UPDATE\" || oldObject == null || !has(oldObject.metadata) || " +
				"!has(oldObject.metadata.deletionTimestamp)",
		})
	}
	if who := e.reach.who; !who.all {
		all = append(all, admissionv1.MatchCondition{
			Name: "limited-users",
			Expression: "has(request.userInfo.username) && request.userInfo.username in " + celList(who.users) +
				" || has(request.userInfo.groups) && request.userInfo.groups.exists(group, group in " + celList(who.groups) + ")",
		})
	}
	return all
}

// mayBeExempt reports whether a wildcard covers exempt resources. Rules that name an exempt resource do not exist.
func mayBeExempt(rules []admissionv1.RuleWithOperations) bool {
	return slices.ContainsFunc(rules, func(rule admissionv1.RuleWithOperations) bool {
		return slices.Contains(rule.APIGroups, wildcard) || slices.Contains(rule.APIGroups, "") &&
			slices.ContainsFunc(rule.Resources, func(name string) bool {
				plural, sub, _ := strings.Cut(name, "/")
				return plural == wildcard || plural == "pods" && sub == wildcard
			})
	})
}

func (r resources) operations() (all operations) {
	for _, ops := range r {
		all |= ops
	}
	return all
}

// celList returns a list of CEL strings. CEL and Go use the same escapes in strings. API servers compile such a list to a set.
func celList(names []string) string {
	quoted := make([]string, len(names))
	for i, name := range names {
		quoted[i] = strconv.Quote(name)
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}
