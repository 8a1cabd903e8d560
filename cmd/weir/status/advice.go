package status

import "github.com/weir-dev/weir/api/v1alpha1"

// advice is what to do about a problem, and the name of its page in docs/runbooks.
type advice struct{ do, page string }

// adviceForLimiter returns the advice for a reason of Ready=False of a Limiter.
func adviceForLimiter(reason string) advice {
	switch reason {
	case "":
		return advice{"check that the operator runs, and that it watches this namespace", "WeirOperatorAbsent"}
	case v1alpha1.ReasonRefused:
		return advice{"edit the Limiter: the message names the field or the object", "WeirLimiterDown"}
	case v1alpha1.ReasonSecretNotFound:
		return advice{"create the Secret or the key that the message names", "WeirLimiterDown"}
	case v1alpha1.ReasonQuotaExceeded:
		return advice{"raise the ResourceQuota, or delete other objects", "WeirLimiterDown"}
	case v1alpha1.ReasonPending:
		return advice{"wait. The message names what must finish first", "WeirLimiterDown"}
	case v1alpha1.ReasonReplicasMissing:
		return advice{"wait, or look at the pods of the Limiter", "WeirLimiterDown"}
	case v1alpha1.ReasonProgressDeadlineExceeded:
		return advice{"look at the pods of the Limiter: image, Secrets, Redis, resources", "WeirLimiterDown"}
	default:
		return advice{"look at the pods of the Limiter", "WeirLimiterDown"}
	}
}

// adviceForDegraded returns the advice for a reason of Degraded=True of a Limiter or a policy.
func adviceForDegraded(reason string) advice {
	switch reason {
	case v1alpha1.ReasonStoreUnreachable:
		return advice{"check the address, the network, and whether Redis runs. Do not restart limiters", "redis-down"}
	case v1alpha1.ReasonStoreDenied:
		return advice{"check the password in the Secret, and the permissions of the user in Redis", "redis-down"}
	case v1alpha1.ReasonStoreUntrusted:
		return advice{"check ca.crt in the Secret, and the names in the certificate of Redis", "redis-down"}
	case v1alpha1.ReasonSecretNotFound:
		return advice{"create the Secret or the key that the message names", "redis-down"}
	case v1alpha1.ReasonStoreTooOld:
		return advice{"upgrade Redis", "redis-down"}
	case v1alpha1.ReasonLocalMode:
		return advice{"check the network between the replicas and Redis. Do not restart limiters", "WeirDecidesWithoutRedis"}
	case v1alpha1.ReasonStoreEvicts:
		return advice{"set maxmemory-policy noeviction in Redis", "WeirRedisMayEvictKeys"}
	case v1alpha1.ReasonRulesRejected:
		return advice{"do what the message states. A limiter that is older than the operator must be upgraded", "WeirRulesDiffer"}
	case v1alpha1.ReasonInvalidSelector:
		return advice{"correct the selector of the Limiter. Until then, edits of its policies have no effect", "policy-not-enforced"}
	case v1alpha1.ReasonRouteTableIncomplete:
		return advice{"correct spec.routeMatching, or the routes that the message names", "policy-not-enforced"}
	case v1alpha1.ReasonTargetsUnreadable:
		return advice{"install the ClusterRole of the operator's version: the message names the missing permission", "policy-not-enforced"}
	case v1alpha1.ReasonSnapshotNotWritten:
		return advice{"act on the message. Limiters that start without Redis would have no rules", "WeirLimiterWithoutRules"}
	default:
		return advice{"act on the message", "redis-down"}
	}
}

// adviceForThrottle returns the advice for a reason of ThrottleRegistered=False.
func adviceForThrottle(reason string) advice {
	const page = "policy-not-enforced"
	switch reason {
	case v1alpha1.ReasonNotOperatorNamespace:
		return advice{"move the Limiter to the namespace of the operator", page}
	case v1alpha1.ReasonNoCertificate:
		return advice{"create the Secret weir-throttle-certificates, or let the operator manage certificates", page}
	case v1alpha1.ReasonNotReady:
		return advice{"look at the pods of the Limiter", "WeirLimiterDown"}
	case v1alpha1.ReasonNotWritten:
		return advice{"check the permissions of the operator: the message has the error", page}
	default:
		return advice{"act on the message", page}
	}
}

// adviceForPolicy returns the advice for a reason of Ready of a policy.
func adviceForPolicy(reason string) advice {
	const page = "policy-not-enforced"
	switch reason {
	case "":
		return advice{"check that the operator runs", "WeirOperatorAbsent"}
	case v1alpha1.ReasonInvalid:
		return advice{"correct the field that the message names. Check the file with weir lint", "WeirPoliciesRejected"}
	case v1alpha1.ReasonOverBudget:
		return advice{"shorten or delete policies, or raise spec.policyBudget of the Limiter", "WeirPolicyBudgetExceeded"}
	case v1alpha1.ReasonTargetNotFound:
		return advice{"create the target, or correct spec.targetRefs", "WeirPoliciesRejected"}
	case v1alpha1.ReasonRefNotPermitted:
		return advice{"ask the owner of the Gateway for a ReferenceGrant", "WeirPoliciesRejected"}
	case v1alpha1.ReasonConflicted:
		return advice{"delete one of the policies, or change what it counts", "WeirPoliciesRejected"}
	case v1alpha1.ReasonNotSelected:
		return advice{"create a Limiter, or correct policySelector and policyNamespaceSelector of the existing ones", page}
	case v1alpha1.ReasonNotAdmitted:
		return advice{"let an administrator set what the message names: spec.kubernetesThrottle of a Limiter, or namespacedPolicies in it", page}
	case v1alpha1.ReasonNotRegistered:
		return advice{"act on the message: API servers do not call the Limiter for the policy", page}
	case v1alpha1.ReasonNoReplicas:
		return advice{"look at the pods of the Limiter", "WeirLimiterWithoutRules"}
	case v1alpha1.ReasonPartiallyProgrammed:
		return advice{"repair the Limiter that the message names, or exclude the policy with its selectors", page}
	case v1alpha1.ReasonPending:
		return advice{"wait ten seconds. If it remains, look at the log of the replicas that are missing", "WeirRulesDiffer"}
	case v1alpha1.ReasonStoreUnreachable:
		return advice{"repair Redis, or the access of the operator to it. Do not restart limiters", "redis-down"}
	default:
		return advice{"act on the message", page}
	}
}
