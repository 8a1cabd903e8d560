package v1alpha1

// Condition types. Reconciling, Stalled, Degraded and Overridden exist only while true.
const (
	// ConditionAccepted: the policy compiles and is part of what the Limiter is told.
	ConditionAccepted = "Accepted"
	// ConditionProgrammed: every live replica of every selecting Limiter enforces this generation.
	ConditionProgrammed = "Programmed"
	// ConditionReady sums the two up.
	ConditionReady = "Ready"
	// ConditionReconciling: the operator is still bringing this generation to the replicas.
	ConditionReconciling = "Reconciling"
	// ConditionStalled: only an edit of the policy can help.
	ConditionStalled = "Stalled"
	// ConditionDegraded: some replicas decide without Redis, or may, so that they do not share counters. It says nothing of
	// whether this generation is enforced: that is Programmed.
	ConditionDegraded = "Degraded"
	// ConditionOverridden: in some domain the policy decides nothing, for another one decides in its place.
	ConditionOverridden = "Overridden"
	// ConditionThrottleRegistered of a Limiter with kubernetesThrottle: API servers ask it.
	ConditionThrottleRegistered = "ThrottleRegistered"
)

// Reasons of the conditions.
const (
	ReasonAccepted         = "Accepted"         // Accepted=True
	ReasonInvalid          = "Invalid"          // Accepted=False, Stalled=True: the policy does not compile
	ReasonProgrammed       = "Programmed"       // Programmed=True, Ready=True
	ReasonPending          = "Pending"          // Programmed=False: some replicas have not acknowledged yet
	ReasonNoReplicas       = "NoReplicas"       // Programmed=False: no limiter replica is alive and has rules
	ReasonNotSelected      = "NotSelected"      // Programmed=False: no Limiter selects the policy
	ReasonStoreUnreachable = "StoreUnreachable" // Programmed=False, Degraded=True: the operator cannot reach Redis
	ReasonLocalMode        = "LocalMode"        // Degraded=True: live replicas decide without Redis

	// ReasonNamespacePolicy: Overridden=True of a ClusterRateLimitPolicy that applies by Default: in some domain a
	// RateLimitPolicy with the same axis matches every request that it matches.
	ReasonNamespacePolicy = "NamespacePolicy"
	// ReasonStricterPolicy: Overridden=True of a policy beside which a ClusterRateLimitPolicy counts the same requests and is
	// as strict or stricter.
	ReasonStricterPolicy = "StricterPolicy"

	// ReasonDeployed and those below are of a Limiter.
	ReasonDeployed        = "Deployed"        // Programmed=True: all that it needs to run is applied
	ReasonRefused         = "Refused"         // Accepted=False: the API server refuses what it needs to run
	ReasonSecretNotFound  = "SecretNotFound"  // Programmed=False: a Secret that it names is missing, or a key in it
	ReasonReplicasMissing = "ReplicasMissing" // Ready=False: fewer replicas are ready than there should be
	// ReasonProgressDeadlineExceeded: Ready=False, Stalled=True: so they have been for longer than a Deployment waits.
	ReasonProgressDeadlineExceeded = "ProgressDeadlineExceeded"

	// ReasonStoreDenied and those below are of Degraded=True of a Limiter, beside StoreUnreachable, LocalMode and SecretNotFound.
	ReasonStoreDenied     = "StoreDenied"     // Redis takes the credentials for none, or gives them too few rights
	ReasonStoreUntrusted  = "StoreUntrusted"  // no authority vouches for Redis' certificate, or Redis takes ours for none
	ReasonStoreTooOld     = "StoreTooOld"     // Redis lacks commands that Weir needs
	ReasonStoreEvicts     = "StoreEvicts"     // Redis may drop counters when its memory is full
	ReasonInvalidSelector = "InvalidSelector" // policySelector or policyNamespaceSelector has a label that none can be: what was selected before stays

	// ReasonRegistered and those below are of ThrottleRegistered.
	ReasonRegistered           = "Registered"           // True
	ReasonNotOperatorNamespace = "NotOperatorNamespace" // False: only a Limiter beside the operator may
	ReasonNoPolicies           = "NoPolicies"           // False: no policy that it selects limits writes
	ReasonNoCertificate        = "NoCertificate"        // False: there is nothing by which to know it
	ReasonNotReady             = "NotReady"             // False: no pod answers
	ReasonNotWritten           = "NotWritten"           // False: the API server refuses the webhook
)
