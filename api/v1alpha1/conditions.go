package v1alpha1

import "github.com/weir-dev/weir/api/v1alpha1/policyapi"

// Condition types. Reconciling, Stalled, Degraded, Overridden and CountsSeparately are present only while they are true.
const (
	// ConditionAccepted of a policy is true if the policy compiles. Accepted of a Limiter is true if the API server accepted all
	// managed resources of the Limiter.
	ConditionAccepted = "Accepted"
	// ConditionProgrammed of a policy is true if every live replica of every Limiter that selects the policy enforces this generation.
	// Programmed of a Limiter is true if all managed resources are applied.
	ConditionProgrammed = "Programmed"
	// ConditionReady of a policy is true if at least one Limiter enforces this generation, no other Limiter is about to, and requests can match
	// the policy as far as the operator knows: it summarizes Accepted and Programmed. For a Limiter it also requires that the desired number of replicas is ready.
	ConditionReady = "Ready"
	// ConditionEnforced of a policy is true if a replica has decided a request under this generation. It does not become false when replicas restart
	// or get no more requests.
	ConditionEnforced = "Enforced"
	// ConditionReconciling is true while the operator rolls out this generation to the replicas.
	ConditionReconciling = "Reconciling"
	// ConditionStalled is true if the operator cannot make progress until a user edits the object.
	ConditionStalled = "Stalled"
	// ConditionDegraded is true if some replicas decide, or may decide, without Redis and therefore do not share counters, or if new
	// identifiers get no counter of their own, or soon will not. It does not depend on whether this generation is enforced: Programmed reports
	// that.
	ConditionDegraded = "Degraded"
	// ConditionOverridden is true if the policy decides no request in at least one domain, because another policy decides instead.
	ConditionOverridden = "Overridden"
	// ConditionCountsSeparately of a Limiter is true if another Limiter selects the same policies and uses the same Redis, and they have no common
	// counterGroup: each of them admits the whole limit.
	ConditionCountsSeparately = "CountsSeparately"
	// ConditionThrottleRegistered of a Limiter with kubernetesThrottle is true if a webhook configuration sends writes to its pods.
	ConditionThrottleRegistered = "ThrottleRegistered"
)

// Reasons of the conditions.
const (
	ReasonAccepted   = policyapi.ReasonAccepted   // Accepted=True
	ReasonInvalid    = policyapi.ReasonInvalid    // Accepted=False, Stalled=True: the policy does not compile
	ReasonOverBudget = policyapi.ReasonOverBudget // Accepted=False, Stalled=True: the policy exceeds spec.policyBudget of the Limiter
	ReasonProgrammed = "Programmed"               // Programmed=True, Ready=True
	ReasonPending    = "Pending"                  // Programmed=False: some replicas have not acknowledged this generation yet
	// ReasonPartiallyProgrammed is the reason of Ready=True: some Limiters enforce this generation, and the others cannot.
	ReasonPartiallyProgrammed = "PartiallyProgrammed"
	ReasonNoReplicas          = "NoReplicas"       // Programmed=False: no live limiter replica has rules
	ReasonNotSelected         = "NotSelected"      // Programmed=False: no Limiter selects the policy
	ReasonNotAdmitted         = "NotAdmitted"      // Programmed=False: match.kubernetes, and no Limiter admits the policy for writes
	ReasonNotRegistered       = "NotRegistered"    // Programmed=False: match.kubernetes, and API servers do not call the Limiter for it
	ReasonStoreUnreachable    = "StoreUnreachable" // Programmed=False, Degraded=True: the operator cannot connect to Redis
	ReasonLocalMode           = "LocalMode"        // Degraded=True: live replicas decide without Redis

	// ReasonNoRoutes and the reasons below are reasons of Ready=False: the replicas enforce this generation, and no request can match it.
	ReasonNoRoutes     = policyapi.ReasonNoRoutes     // gateways route no request to the targets of the policy; also of an entry in status.ancestors
	ReasonNoNamespaces = policyapi.ReasonNoNamespaces // match.kubernetes selects no namespace that exists
	ReasonNoMatch      = policyapi.ReasonNoMatch      // the fields of the policy contradict each other

	// ReasonRequestDecided and the reasons below are reasons of Enforced.
	ReasonRequestDecided = "RequestDecided" // Enforced=True: a replica has decided a request under this generation
	ReasonNoRequests     = "NoRequests"     // Enforced=False: no replica has decided a request under this generation
	ReasonNotReported    = "NotReported"    // Enforced=Unknown: replicas of an older version do not report which policies have decided requests

	// ReasonNamespacePolicy is the reason of Overridden=True of a ClusterRateLimitPolicy with precedence Default: in at least one
	// domain, a RateLimitPolicy that replaces it matches every request that the policy matches.
	ReasonNamespacePolicy = policyapi.ReasonNamespacePolicy
	// ReasonStricterPolicy is the reason of Overridden=True of a policy if a ClusterRateLimitPolicy counts the same requests and is
	// at least as strict.
	ReasonStricterPolicy = policyapi.ReasonStricterPolicy

	// ReasonTargetNotFound and the reasons below are reasons of Accepted=False, of a policy and of an entry in status.ancestors.
	ReasonTargetNotFound  = policyapi.ReasonTargetNotFound  // the target, or the section of it, does not exist
	ReasonRefNotPermitted = policyapi.ReasonRefNotPermitted // no ReferenceGrant permits the reference to another namespace
	ReasonConflicted      = policyapi.ReasonConflicted      // an older policy limits the same requests of the target in the same way
	// ReasonTargetsUnreadable is for Degraded=True: the operator cannot read the targets, and the policy keeps its previous rule.
	ReasonTargetsUnreadable = "TargetsUnreadable"
	// ReasonManyIdentifiers is for Degraded=True: if the policy gets more identifiers, new ones get no counter of their own.
	ReasonManyIdentifiers = "ManyIdentifiers"
	// ReasonIdentifierOverflow is for Degraded=True: new identifiers of the policy get no counter of their own.
	ReasonIdentifierOverflow = "IdentifierOverflow"

	// ReasonDeployed and the reasons below belong to a Limiter.
	ReasonDeployed        = "Deployed"        // Programmed=True: all managed resources are applied
	ReasonRefused         = "Refused"         // Accepted=False: the API server rejected a managed resource
	ReasonSecretNotFound  = "SecretNotFound"  // Programmed=False: a referenced Secret, or a key in it, does not exist
	ReasonQuotaExceeded   = "QuotaExceeded"   // Programmed=False: a managed resource exceeds a ResourceQuota
	ReasonReplicasMissing = "ReplicasMissing" // Ready=False: fewer replicas are ready than desired
	// ReasonProgressDeadlineExceeded is the reason of Ready=False and Stalled=True: fewer replicas than desired were ready for longer
	// than the progress deadline of the Deployment.
	ReasonProgressDeadlineExceeded = "ProgressDeadlineExceeded"

	// ReasonStoreDenied and the reasons below belong to Degraded=True of a Limiter, in addition to StoreUnreachable, LocalMode and
	// SecretNotFound.
	ReasonStoreDenied = "StoreDenied" // Redis rejected the credentials, or they lack permissions
	// ReasonStoreCredentialsUnavailable means that the operator has no valid credentials for Redis, for example because a provider of tokens is unavailable.
	ReasonStoreCredentialsUnavailable = "StoreCredentialsUnavailable"
	ReasonStoreUntrusted              = "StoreUntrusted"     // the Redis certificate is not trusted, or Redis rejected the client certificate
	ReasonStoreTooOld                 = "StoreTooOld"        // this version of Redis lacks commands that Weir needs
	ReasonStoreEvicts                 = "StoreEvicts"        // Redis may evict counters when its memory is full
	ReasonStoreClockWrong             = "StoreClockWrong"    // the clock of Redis differs from that of the operator by more than 5 s
	ReasonSnapshotNotWritten          = "SnapshotNotWritten" // the rules for starts without Redis are not stored
	ReasonRulesRejected               = "RulesRejected"      // a replica rejects the current rules, and does not enforce them
	// ReasonRouteTableIncomplete means that pods do not find some routes of spec.routeMatching.
	ReasonRouteTableIncomplete = "RouteTableIncomplete"
	ReasonInvalidSelector      = "InvalidSelector" // policySelector or policyNamespaceSelector is invalid: the previous selection is kept

	ReasonNoCounterGroup = "NoCounterGroup" // CountsSeparately=True: the Limiters have no common spec.counterGroup

	// ReasonRegistered and the reasons below belong to ThrottleRegistered.
	ReasonRegistered           = "Registered"           // True: the webhook is registered
	ReasonNotOperatorNamespace = "NotOperatorNamespace" // False: the Limiter is not in the operator's namespace
	ReasonNoPolicies           = "NoPolicies"           // False: the Limiter selects no policy with match.kubernetes
	ReasonNoCertificate        = "NoCertificate"        // False: the serving certificate does not exist yet
	ReasonNotReady             = "NotReady"             // False: no pod of the Limiter is ready
	ReasonNotWritten           = "NotWritten"           // False: the API server rejected the webhook configuration
)
