package registration

import (
	"strconv"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	"github.com/weir-dev/weir/controllers/deployment"
)

// conditions keep API servers from asking about those who are exempt. A field that is empty is not there for CEL, and to
// read it would be an error, by which failurePolicy Fail refuses the write.
func matchConditions(exempt deployment.Exemptions) []admissionv1.MatchCondition {
	all := []admissionv1.MatchCondition{{
		Name:       "exempt-groups",
		Expression: "!has(request.userInfo.groups) || !request.userInfo.groups.exists(group, group in " + celList(exempt.Groups) + ")",
	}}
	if len(exempt.Users) > 0 {
		all = append(all, admissionv1.MatchCondition{
			Name:       "exempt-users",
			Expression: "!has(request.userInfo.username) || !(request.userInfo.username in " + celList(exempt.Users) + ")",
		})
	}
	return all
}

// literal is a list in CEL, whose escapes in strings are those of Go. API servers fold such a list into a set.
func celList(names []string) string {
	quoted := make([]string, len(names))
	for i, name := range names {
		quoted[i] = strconv.Quote(name)
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}
