package matching

// Condition is a part of a policy that decides whether a request matches.
type Condition uint8

// The conditions, in the order in which they are compared.
const (
	NoCondition     Condition = iota
	ConditionDomain           // the request is in another domain
	ConditionKind             // the request is of another kind, see [rules.Rule.Kinds]
	ConditionHosts
	ConditionRoutes
	ConditionPaths
	ConditionMethods
	ConditionHeaders
	ConditionCIDRs
	ConditionExceptCIDRs
	ConditionDescriptors
	ConditionResources // of Kubernetes: groups, resources and operations
	ConditionNamespaces
	ConditionUsers
	ConditionGroups
	ConditionExceptUsers
	ConditionExceptGroups
	ConditionNamespaceSelector
	ConditionIdentifier // of a write to the Kubernetes API that does not have the identifier
	ConditionExpression // the last: the most expensive
)

// failedCondition is the condition that a rule failed. For ConditionHeaders, at is the index of the header in the match.
type failedCondition struct {
	condition   Condition
	headerIndex int
}
