package policyapi

// The reasons in conditions of policies that compiling them gives. Package v1alpha1 describes them.
const (
	ReasonAccepted        = "Accepted"
	ReasonConflicted      = "Conflicted"
	ReasonInvalid         = "Invalid"
	ReasonNamespacePolicy = "NamespacePolicy"
	ReasonNoMatch         = "NoMatch"
	ReasonNoNamespaces    = "NoNamespaces"
	ReasonNoRoutes        = "NoRoutes"
	ReasonOverBudget      = "OverBudget"
	ReasonRefNotPermitted = "RefNotPermitted"
	ReasonStricterPolicy  = "StricterPolicy"
	ReasonTargetNotFound  = "TargetNotFound"
)
