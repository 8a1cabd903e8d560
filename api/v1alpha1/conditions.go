package v1alpha1

// Condition types. Reconciling, Stalled and Degraded exist only while true.
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
)

// Reasons of the conditions.
const (
	ReasonAccepted         = "Accepted"         // Accepted=True
	ReasonInvalid          = "Invalid"          // Accepted=False, Stalled=True: the policy does not compile
	ReasonProgrammed       = "Programmed"       // Programmed=True, Ready=True
	ReasonPending          = "Pending"          // Programmed=False: some replicas have not acknowledged yet
	ReasonNoReplicas       = "NoReplicas"       // Programmed=False: no limiter replica is alive and has rules
	ReasonStoreUnreachable = "StoreUnreachable" // Programmed=False, Degraded=True: the operator cannot reach Redis
	ReasonLocalMode        = "LocalMode"        // Degraded=True: live replicas decide without Redis
)
