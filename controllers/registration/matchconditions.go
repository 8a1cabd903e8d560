package registration

import (
	"strconv"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	"github.com/weir-dev/weir/controllers/deployment"
)

// matchConditions exclude exempt users and groups. CEL treats an empty field as absent: reading it would be an error, and with
// failurePolicy Fail the API server would reject the write. Each expression therefore checks has() first.
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

// celList returns a list of CEL strings. CEL and Go use the same escapes in strings. API servers compile such a list to a set.
func celList(names []string) string {
	quoted := make([]string, len(names))
	for i, name := range names {
		quoted[i] = strconv.Quote(name)
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}
