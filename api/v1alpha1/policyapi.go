package v1alpha1

import "github.com/weir-dev/weir/api/v1alpha1/policyapi"

// The types of the specs of policies: package policyapi has them without the libraries of Kubernetes.

//nolint:revive // each type has its comment there
type (
	APIGroup                   = policyapi.APIGroup
	Algorithm                  = policyapi.Algorithm
	Axis                       = policyapi.Axis
	CIDR                       = policyapi.CIDR
	ClusterRateLimitPolicySpec = policyapi.ClusterRateLimitPolicySpec
	Cost                       = policyapi.Cost
	Denial                     = policyapi.Denial
	DenialHeader               = policyapi.DenialHeader
	DenialHeaderName           = policyapi.DenialHeaderName
	DescriptorKey              = policyapi.DescriptorKey
	DescriptorMatch            = policyapi.DescriptorMatch
	DescriptorPattern          = policyapi.DescriptorPattern
	Domain                     = policyapi.Domain
	Duration                   = policyapi.Duration
	Enforcement                = policyapi.Enforcement
	Expression                 = policyapi.Expression
	GatewayReference           = policyapi.GatewayReference
	Group                      = policyapi.Group
	HTTPMatch                  = policyapi.HTTPMatch
	HeaderMatch                = policyapi.HeaderMatch
	HeaderMatchType            = policyapi.HeaderMatchType
	HeaderName                 = policyapi.HeaderName
	Host                       = policyapi.Host
	Identifier                 = policyapi.Identifier
	IdentifierSource           = policyapi.IdentifierSource
	KubernetesMatch            = policyapi.KubernetesMatch
	KubernetesResources        = policyapi.KubernetesResources
	KubernetesUser             = policyapi.KubernetesUser
	LabelSelector              = policyapi.LabelSelector
	LabelSelectorOperator      = policyapi.LabelSelectorOperator
	LabelSelectorRequirement   = policyapi.LabelSelectorRequirement
	Lease                      = policyapi.Lease
	LocalShare                 = policyapi.LocalShare
	Match                      = policyapi.Match
	MatchedBy                  = policyapi.MatchedBy
	Method                     = policyapi.Method
	NamespaceName              = policyapi.NamespaceName
	OnMissing                  = policyapi.OnMissing
	Operation                  = policyapi.Operation
	Overrun                    = policyapi.Overrun
	PathMatch                  = policyapi.PathMatch
	PathMatchType              = policyapi.PathMatchType
	Percentage                 = policyapi.Percentage
	PolicyName                 = policyapi.PolicyName
	Precedence                 = policyapi.Precedence
	Rate                       = policyapi.Rate
	RateLimitPolicySpec        = policyapi.RateLimitPolicySpec
	ResourceName               = policyapi.ResourceName
	Scope                      = policyapi.Scope
	Storage                    = policyapi.Storage
	StoreFailure               = policyapi.StoreFailure
	TargetGroup                = policyapi.TargetGroup
	TargetKind                 = policyapi.TargetKind
	TargetReference            = policyapi.TargetReference
	Tier                       = policyapi.Tier
	TierIdentifier             = policyapi.TierIdentifier
	When                       = policyapi.When
)

// The values of the types above.
const (
	AxisAPIKey              = policyapi.AxisAPIKey
	AxisCustom              = policyapi.AxisCustom
	AxisEndpoint            = policyapi.AxisEndpoint
	AxisIP                  = policyapi.AxisIP
	AxisNamespace           = policyapi.AxisNamespace
	AxisServiceAccount      = policyapi.AxisServiceAccount
	AxisTenant              = policyapi.AxisTenant
	AxisUser                = policyapi.AxisUser
	EnforcementEnforce      = policyapi.EnforcementEnforce
	EnforcementShadow       = policyapi.EnforcementShadow
	FixedWindow             = policyapi.FixedWindow
	HeaderExact             = policyapi.HeaderExact
	HeaderPresent           = policyapi.HeaderPresent
	HeaderRegularExpression = policyapi.HeaderRegularExpression
	LeakyBucket             = policyapi.LeakyBucket
	MatchedByRequest        = policyapi.MatchedByRequest
	MatchedByRouteName      = policyapi.MatchedByRouteName
	OnMissingClientAddress  = policyapi.OnMissingClientAddress
	OnMissingDeny           = policyapi.OnMissingDeny
	OnMissingShared         = policyapi.OnMissingShared
	OnMissingSkip           = policyapi.OnMissingSkip
	OperationConnect        = policyapi.OperationConnect
	OperationCreate         = policyapi.OperationCreate
	OperationUpdate         = policyapi.OperationUpdate
	OverrunDebt             = policyapi.OverrunDebt
	OverrunDeny             = policyapi.OverrunDeny
	LocalShareEqual         = policyapi.LocalShareEqual
	LocalShareWhole         = policyapi.LocalShareWhole
	PathExact               = policyapi.PathExact
	PathPrefix              = policyapi.PathPrefix
	PathRegularExpression   = policyapi.PathRegularExpression
	PrecedenceDefault       = policyapi.PrecedenceDefault
	PrecedenceOverride      = policyapi.PrecedenceOverride
	ScopeEndpoint           = policyapi.ScopeEndpoint
	ScopePolicy             = policyapi.ScopePolicy
	SlidingWindowCounter    = policyapi.SlidingWindowCounter
	SlidingWindowLog        = policyapi.SlidingWindowLog
	StorageCompact          = policyapi.StorageCompact
	StorageExact            = policyapi.StorageExact
	StoreFailureAllow       = policyapi.StoreFailureAllow
	StoreFailureDeny        = policyapi.StoreFailureDeny
	StoreFailureLocal       = policyapi.StoreFailureLocal
	TargetGRPCRoute         = policyapi.TargetGRPCRoute
	TargetGateway           = policyapi.TargetGateway
	TargetHTTPRoute         = policyapi.TargetHTTPRoute
	TokenBucket             = policyapi.TokenBucket
)
