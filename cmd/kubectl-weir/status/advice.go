package status

import "github.com/weir-dev/weir/api/v1alpha1"

// advice is what to do about a problem, and the name of its page in docs/runbooks.
type advice struct{ do, page string }

// find returns the advice for a reason, or the general one.
func find(reason string, list map[string]advice, general advice) advice {
	if a, found := list[reason]; found {
		return a
	}
	return general
}

// adviceForLimiter returns the advice for a reason of Ready=False of a Limiter.
func adviceForLimiter(reason string) advice {
	return find(reason, map[string]advice{
		"":                                      {"check that the operator runs, and that it watches this namespace", "WeirOperatorAbsent"},
		v1alpha1.ReasonRefused:                  {"edit the Limiter: the message names the field or the object", "WeirLimiterDown"},
		v1alpha1.ReasonSecretNotFound:           {"create the Secret or the key that the message names", "WeirLimiterDown"},
		v1alpha1.ReasonQuotaExceeded:            {"raise the ResourceQuota, or delete other objects", "WeirLimiterDown"},
		v1alpha1.ReasonPending:                  {"wait. The message names what must finish first", "WeirLimiterDown"},
		v1alpha1.ReasonReplicasMissing:          {"wait, or look at the pods of the Limiter", "WeirLimiterDown"},
		v1alpha1.ReasonProgressDeadlineExceeded: {"look at the pods of the Limiter: image, Secrets, Redis, resources", "WeirLimiterDown"},
	}, advice{"look at the pods of the Limiter", "WeirLimiterDown"})
}

// adviceForDegraded returns the advice for a reason of Degraded=True of a Limiter or a policy.
func adviceForDegraded(reason string) advice {
	return find(reason, map[string]advice{
		v1alpha1.ReasonStoreUnreachable:            {"check the address, the network, and whether Redis runs. Do not restart limiters", "redis-down"},
		v1alpha1.ReasonStoreDenied:                 {"check the password in the Secret, and the permissions of the user in Redis", "redis-down"},
		v1alpha1.ReasonStoreCredentialsUnavailable: {"check the identity of the ServiceAccount weir-operator, and act on the message", "redis-down"},
		v1alpha1.ReasonStoreUntrusted:              {"check ca.crt in the Secret, and the names in the certificate of Redis", "redis-down"},
		v1alpha1.ReasonSecretNotFound:              {"create the Secret or the key that the message names", "redis-down"},
		v1alpha1.ReasonStoreTooOld:                 {"upgrade Redis", "redis-down"},
		v1alpha1.ReasonLocalMode:                   {"check the network between the replicas and Redis. Do not restart limiters", "WeirDecidesWithoutRedis"},
		v1alpha1.ReasonStoreEvicts:                 {"set maxmemory-policy noeviction in Redis", "WeirRedisMayEvictKeys"},
		v1alpha1.ReasonStoreClockWrong:             {"synchronize the clocks of the Redis servers and of the nodes", "WeirRedisClockWrong"},
		v1alpha1.ReasonRulesRejected:               {"do what the message states. A limiter that is older than the operator must be upgraded", "WeirRulesDiffer"},
		v1alpha1.ReasonInvalidSelector:             {"correct the selector of the Limiter. Until then, edits of its policies have no effect", "policy-not-enforced"},
		v1alpha1.ReasonRouteTableIncomplete:        {"correct spec.routeMatching, or the routes that the message names", "policy-not-enforced"},
		v1alpha1.ReasonTargetsUnreadable:           {"install the ClusterRole of the operator's version. The message names the permission", "policy-not-enforced"},
		v1alpha1.ReasonManyIdentifiers:             {"find out whether clients invent identifiers, and give Redis more memory", "WeirIdentifierOverflow"},
		v1alpha1.ReasonIdentifierOverflow:          {"find out whether clients invent identifiers, and give Redis more memory", "WeirIdentifierOverflow"},
		v1alpha1.ReasonSnapshotNotWritten:          {"act on the message. Limiters that start without Redis would have no rules", "WeirLimiterWithoutRules"},
	}, advice{"act on the message", "redis-down"})
}

// adviceForThrottle returns the advice for a reason of ThrottleRegistered=False.
func adviceForThrottle(reason string) advice {
	const page = "policy-not-enforced"
	return find(reason, map[string]advice{
		v1alpha1.ReasonNotOperatorNamespace: {"move the Limiter to the namespace of the operator", page},
		v1alpha1.ReasonNoCertificate:        {"create the Secret weir-throttle-certificates, or let the operator manage certificates", page},
		v1alpha1.ReasonNotReady:             {"look at the pods of the Limiter", "WeirLimiterDown"},
		v1alpha1.ReasonNotWritten:           {"check the permissions of the operator: the message has the error", page},
	}, advice{"act on the message", page})
}

// adviceForPolicy returns the advice for a reason of Ready of a policy.
func adviceForPolicy(reason string) advice {
	const page = "policy-not-enforced"
	return find(reason, map[string]advice{
		"":                                 {"check that the operator runs", "WeirOperatorAbsent"},
		v1alpha1.ReasonInvalid:             {"correct the field that the message names. Check the file with weir lint", "WeirPoliciesRejected"},
		v1alpha1.ReasonOverBudget:          {"shorten or delete policies, or raise spec.policyBudget of the Limiter", "WeirPolicyBudgetExceeded"},
		v1alpha1.ReasonTargetNotFound:      {"create the target, or correct spec.targetRefs", "WeirPoliciesRejected"},
		v1alpha1.ReasonRefNotPermitted:     {"ask the owner of the Gateway for a ReferenceGrant", "WeirPoliciesRejected"},
		v1alpha1.ReasonConflicted:          {"delete one of the policies, or change what it counts", "WeirPoliciesRejected"},
		v1alpha1.ReasonNotSelected:         {"create a Limiter, or correct policySelector and policyNamespaceSelector of the existing ones", page},
		v1alpha1.ReasonNotAdmitted:         {"let an administrator set what the message names: kubernetesThrottle of a Limiter, or its namespacedPolicies", page},
		v1alpha1.ReasonNotRegistered:       {"act on the message: API servers do not call the Limiter for the policy", page},
		v1alpha1.ReasonNoRoutes:            {"attach a route to the target, or correct spec.targetRefs: the message names the object", page},
		v1alpha1.ReasonNoNamespaces:        {"label a namespace, or correct namespaces and namespaceSelector", page},
		v1alpha1.ReasonNoMatch:             {"correct the field that the message names", page},
		v1alpha1.ReasonNoReplicas:          {"look at the pods of the Limiter", "WeirLimiterWithoutRules"},
		v1alpha1.ReasonPartiallyProgrammed: {"repair the Limiter that the message names, or exclude the policy with its selectors", page},
		v1alpha1.ReasonPending:             {"wait ten seconds. If it remains, look at the log of the replicas that are missing", "WeirRulesDiffer"},
		v1alpha1.ReasonStoreUnreachable:    {"repair Redis, or the access of the operator to it. Do not restart limiters", "redis-down"},
	}, advice{"act on the message", page})
}
