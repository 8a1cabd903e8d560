package status

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-dev/weir/api/v1alpha1"
)

func condition(name, status, reason string) metav1.Condition {
	return metav1.Condition{Type: name, Status: metav1.ConditionStatus(status), Reason: reason, Message: "message of " + reason, ObservedGeneration: 3}
}

func policy(name string, conditions ...metav1.Condition) v1alpha1.RateLimitPolicy {
	return v1alpha1.RateLimitPolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, Generation: 3},
		Status:     v1alpha1.RateLimitPolicyStatus{Conditions: conditions},
	}
}

func pods(name, component, image string) appsv1.Deployment {
	two := int32(2)
	return appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "weir-system", Name: name, Labels: map[string]string{"app.kubernetes.io/component": component}},
		Spec: appsv1.DeploymentSpec{Replicas: &two, Template: corev1.PodTemplateSpec{
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Image: image}}},
		}},
		Status: appsv1.DeploymentStatus{ReadyReplicas: 2},
	}
}

// healthy returns an installation without problems. It has a policy that is overridden, as intended.
func healthy() *Objects {
	hook := func(configuration, name string) admissionv1.ValidatingWebhookConfiguration {
		return admissionv1.ValidatingWebhookConfiguration{
			ObjectMeta: metav1.ObjectMeta{Name: configuration},
			Webhooks:   []admissionv1.ValidatingWebhook{{Name: name, ClientConfig: admissionv1.WebhookClientConfig{CABundle: []byte("CA")}}},
		}
	}
	return &Objects{
		Scope: Scope{OperatorNamespace: "weir-system"},
		Limiters: []v1alpha1.Limiter{{
			ObjectMeta: metav1.ObjectMeta{Namespace: "weir-system", Name: "default", Generation: 3},
			Status: v1alpha1.LimiterStatus{
				Conditions:    []metav1.Condition{condition("Ready", "True", "Deployed"), condition("ThrottleRegistered", "True", "Registered")},
				ReadyReplicas: 2, EnforcingReplicas: 2, Revision: "sha256:0123456789abcdef", Redis: &v1alpha1.RedisState{Reachable: true},
			},
		}},
		Policies: []v1alpha1.RateLimitPolicy{policy("a", condition("Ready", "True", "Programmed"), condition("Enforced", "True", "RequestDecided"))},
		ClusterPolicies: []v1alpha1.ClusterRateLimitPolicy{{
			ObjectMeta: metav1.ObjectMeta{Name: "floor", Generation: 3},
			Status: v1alpha1.RateLimitPolicyStatus{Conditions: []metav1.Condition{
				condition("Ready", "True", "Programmed"), condition("Overridden", "True", "NamespacePolicy"), condition("Enforced", "False", "NoRequests"),
			}},
		}},
		Deployments: []appsv1.Deployment{
			pods("weir-limiter-default", "limiter", "registry:5000/weir@sha256:ab"), pods("weir-operator", "operator", "weir:v1.2.3"),
		},
		Webhooks: []admissionv1.ValidatingWebhookConfiguration{
			hook("weir-policies", "ratelimitpolicies.weir.dev"), hook("weir-throttle", "r1.default.weir-system.throttle.weir.dev"),
		},
	}
}

func TestNew_SummarizesAHealthyInstallation(t *testing.T) {
	two := int32(2)
	want := &Report{
		Version: "v1", Healthy: true, Problems: []Problem{}, Bypasses: []Bypass{},
		Operator: &Operator{"weir-system", "weir-operator", Replicas{2, &two}, "weir:v1.2.3", "v1.2.3"},
		Webhooks: []Webhook{{"weir-policies", true, 1, nil}, {"weir-throttle", true, 1, nil}},
		Limiters: []Limiter{{
			Namespace: "weir-system", Name: "default", Ready: true, Reason: "Deployed", Message: "message of Deployed", Replicas: Replicas{2, &two},
			Image: "registry:5000/weir@sha256:ab", Version: "sha256:ab", Revision: "sha256:0123456789abcdef", Enforcing: 2, Redis: "Reachable",
			ThrottleRegistered: "Registered",
		}},
		Policies: Policies{
			Total: 2, Ready: 2, Overridden: 1, Enforced: 1, NotReady: []ReasonCount{},
			NotEnforced: []NotEnforced{{"NoRequests", []string{"_cluster/floor"}}}, List: []Policy{},
		},
	}
	if diff := cmp.Diff(want, New(healthy())); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestNew_ReportsEachProblem changes one thing of a healthy installation. Each case lists all problems: object, reason, runbook.
func TestNew_ReportsEachProblem(t *testing.T) {
	tests := map[string]struct {
		change func(*Objects)
		want   []string
	}{
		"no operator": {func(o *Objects) { o.Deployments = o.Deployments[:1] }, []string{"Deployment of the operator||WeirOperatorAbsent"}},
		"an operator in another namespace": {
			func(o *Objects) { o.OperatorNamespace = "other" }, []string{"Deployment of the operator||WeirOperatorAbsent"},
		},
		"no operator, in one namespace of users": {func(o *Objects) { o.Namespace, o.Deployments = "shop", nil }, nil},
		"no operator, in its namespace": {
			func(o *Objects) { o.Namespace, o.Deployments = "weir-system", nil }, []string{"Deployment of the operator||WeirOperatorAbsent"},
		},
		"Deployments that cannot be read": {
			func(o *Objects) { o.Deployments, o.Unread = nil, []Unread{{Resource: "deployments.apps"}} }, nil,
		},
		"an operator with few pods": {
			func(o *Objects) { o.Deployments[1].Status.ReadyReplicas = 1 }, []string{"Deployment weir-system/weir-operator||WeirOperatorAbsent"},
		},
		"an operator scaled to zero": {
			func(o *Objects) { o.Deployments[1].Status.ReadyReplicas, *o.Deployments[1].Spec.Replicas = 0, 0 },
			[]string{"Deployment weir-system/weir-operator||WeirOperatorAbsent"},
		},
		"no webhook for policies, which is optional": {func(o *Objects) { o.Webhooks = o.Webhooks[1:] }, nil},
		"a webhook without a CA": {
			func(o *Objects) { o.Webhooks[0].Webhooks[0].ClientConfig.CABundle = nil },
			[]string{"ValidatingWebhookConfiguration weir-policies||WeirOperatorAbsent"},
		},
		"no webhook for writes": {func(o *Objects) { o.Webhooks = o.Webhooks[:1] }, []string{"Limiter weir-system/default||WeirOperatorAbsent"}},
		"the webhook of another Limiter": {
			func(o *Objects) { o.Webhooks[1].Webhooks[0].Name = "xdefault.weir-system.throttle.weir.dev" },
			[]string{"Limiter weir-system/default||WeirOperatorAbsent"},
		},
		"webhooks that cannot be read": {
			func(o *Objects) { o.Webhooks, o.Unread = nil, []Unread{{Resource: webhookResource}} }, nil,
		},
		"webhooks of an installation, in one namespace": {func(o *Objects) { o.Webhooks, o.Namespace = nil, "weir-system" }, nil},
		"some replicas with other rules": {
			func(o *Objects) { o.Limiters[0].Status.EnforcingReplicas = 1 }, []string{"Limiter weir-system/default||WeirRulesDiffer"},
		},
		"a Limiter that was not processed": {
			func(o *Objects) { o.Limiters[0].Generation = 4 }, []string{"Limiter weir-system/default||WeirOperatorAbsent"},
		},
		"a Limiter without status": {
			func(o *Objects) { o.Limiters[0].Status = v1alpha1.LimiterStatus{} }, []string{"Limiter weir-system/default||WeirOperatorAbsent"},
		},
		"a policy that was not processed": {func(o *Objects) { o.Policies[0].Generation = 4 }, []string{"Policy shop/a||WeirOperatorAbsent"}},
		"a degraded policy": {
			func(o *Objects) {
				o.Policies[0].Status.Conditions = append(o.Policies[0].Status.Conditions, condition("Degraded", "True", "LocalMode"))
			},
			[]string{"Policy shop/a|LocalMode|WeirDecidesWithoutRedis"},
		},
		"a policy whose targets cannot be read": {
			func(o *Objects) {
				o.Policies[0].Status.Conditions = append(o.Policies[0].Status.Conditions, condition("Degraded", "True", "TargetsUnreadable"))
			},
			[]string{"Policy shop/a|TargetsUnreadable|policy-not-enforced"},
		},
		"policies of a reason": {func(o *Objects) {
			o.Policies = nil
			for _, name := range []string{"d", "c", "b", "e"} {
				o.Policies = append(o.Policies, policy(name, condition("Ready", "False", "Invalid")))
			}
		}, []string{"4 policies: shop/b, shop/c, shop/d, …|Invalid|WeirPoliciesRejected"}},
	}
	for reason, page := range map[string]string{
		"Refused": "WeirLimiterDown", "SecretNotFound": "WeirLimiterDown", "QuotaExceeded": "WeirLimiterDown", "Pending": "WeirLimiterDown",
		"ReplicasMissing": "WeirLimiterDown", "ProgressDeadlineExceeded": "WeirLimiterDown", "OfAnotherVersion": "WeirLimiterDown",
	} {
		tests["Ready of a Limiter: "+reason] = struct {
			change func(*Objects)
			want   []string
		}{func(o *Objects) { o.Limiters[0].Status.Conditions[0] = condition("Ready", "False", reason) }, []string{"Limiter weir-system/default|" + reason + "|" + page}}
	}
	for reason, page := range map[string]string{
		"StoreUnreachable": "redis-down", "StoreDenied": "redis-down", "StoreCredentialsUnavailable": "redis-down", "StoreUntrusted": "redis-down", "SecretNotFound": "redis-down",
		"StoreTooOld": "redis-down", "LocalMode": "WeirDecidesWithoutRedis", "StoreEvicts": "WeirRedisMayEvictKeys", "StoreClockWrong": "WeirRedisClockWrong",
		"RulesRejected":   "WeirRulesDiffer",
		"InvalidSelector": "policy-not-enforced", "SnapshotNotWritten": "WeirLimiterWithoutRules", "RouteTableIncomplete": "policy-not-enforced",
	} {
		tests["Degraded of a Limiter: "+reason] = struct {
			change func(*Objects)
			want   []string
		}{func(o *Objects) {
			o.Limiters[0].Status.EnforcingReplicas = 0 // the problem of Redis explains it
			o.Limiters[0].Status.Conditions = append(o.Limiters[0].Status.Conditions, condition("Degraded", "True", reason))
		}, []string{"Limiter weir-system/default|" + reason + "|" + page}}
	}
	for reason, page := range map[string]string{
		"NotOperatorNamespace": "policy-not-enforced", "NoCertificate": "policy-not-enforced", "NotReady": "WeirLimiterDown",
		"NotWritten": "policy-not-enforced", "NoPolicies": "",
	} {
		var want []string
		if page != "" {
			want = []string{"Limiter weir-system/default|" + reason + "|" + page}
		}
		tests["ThrottleRegistered: "+reason] = struct {
			change func(*Objects)
			want   []string
		}{func(o *Objects) {
			o.Limiters[0].Status.Conditions[1] = condition("ThrottleRegistered", "False", reason)
		}, want}
	}
	for reason, page := range map[string]string{
		"Invalid": "WeirPoliciesRejected", "OverBudget": "WeirPolicyBudgetExceeded", "TargetNotFound": "WeirPoliciesRejected",
		"RefNotPermitted": "WeirPoliciesRejected", "Conflicted": "WeirPoliciesRejected", "NotSelected": "policy-not-enforced",
		"NotAdmitted": "policy-not-enforced", "NotRegistered": "policy-not-enforced", "NoReplicas": "WeirLimiterWithoutRules",
		"PartiallyProgrammed": "policy-not-enforced", "Pending": "WeirRulesDiffer", "StoreUnreachable": "redis-down", "OfAnotherVersion": "policy-not-enforced",
		"NoRoutes": "policy-not-enforced", "NoNamespaces": "policy-not-enforced", "NoMatch": "policy-not-enforced",
	} {
		status := "False"
		if reason == "PartiallyProgrammed" {
			status = "True"
		}
		tests["Ready of a policy: "+reason] = struct {
			change func(*Objects)
			want   []string
		}{func(o *Objects) { o.ClusterPolicies[0].Status.Conditions[0] = condition("Ready", status, reason) }, []string{"Policy _cluster/floor|" + reason + "|" + page}}
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			o := healthy()
			test.change(o)
			r := New(o)
			var got []string
			for _, p := range r.Problems {
				page := strings.TrimSuffix(strings.TrimPrefix(p.Runbook, "docs/runbooks/"), ".md")
				got = append(got, p.Object+"|"+p.Reason+"|"+page)
				if _, err := os.Stat(filepath.Join("..", "..", "..", p.Runbook)); err != nil || p.Do == "" || p.Message == "" {
					t.Errorf("%+v: %v", p, err)
				}
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("problems %q, want %q", got, test.want)
			}
			if want := len(got) == 0 && len(o.Unread) == 0; r.Healthy != want {
				t.Errorf("healthy: %v", r.Healthy)
			}
		})
	}
}

func TestNew_ReportsRedisAsTheConditionsDo(t *testing.T) {
	for want, change := range map[string]func(*v1alpha1.LimiterStatus){
		"Reachable":   func(*v1alpha1.LimiterStatus) {},
		"Unreachable": func(s *v1alpha1.LimiterStatus) { s.Redis.Reachable = false },
		"Unknown":     func(s *v1alpha1.LimiterStatus) { s.Redis = nil },
		"LocalMode": func(s *v1alpha1.LimiterStatus) {
			s.Conditions = append(s.Conditions, condition("Degraded", "True", "LocalMode"))
		},
	} {
		o := healthy()
		change(&o.Limiters[0].Status)
		if got := New(o).Limiters[0].Redis; got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	o := healthy()
	o.Limiters[0].Status.Conditions = append(o.Limiters[0].Status.Conditions, condition("Degraded", "True", "RulesRejected"))
	if got := New(o).Limiters[0]; got.Redis != "Reachable" || got.Degraded != "RulesRejected" {
		t.Errorf("%+v", got)
	}
}

func TestNew_DoesNotDependOnTheOrderOfObjects(t *testing.T) {
	o := healthy()
	for i := range 12 {
		o.Policies = append(o.Policies, policy(fmt.Sprintf("p%02d", i), metav1.Condition{
			Type: "Ready", Status: "False", Reason: "Invalid", Message: fmt.Sprint("message ", i), ObservedGeneration: 3,
		}))
		l := *o.Limiters[0].DeepCopy()
		l.Name = fmt.Sprintf("l%02d", i)
		o.Limiters = append(o.Limiters, l)
	}
	want := New(o)
	slices.Reverse(o.Policies)
	slices.Reverse(o.Limiters)
	if diff := cmp.Diff(want, New(o)); diff != "" {
		t.Errorf("-in order +reversed:\n%s", diff)
	}
	if p := want.Problems[len(want.Problems)-1]; p.Message != "for example shop/p00: message 0" {
		t.Errorf("%+v", p)
	}
}

// The namespace of a report has the operator, and the flag names another.
func TestNew_FindsTheOperatorInTheNamespaceOfTheReport(t *testing.T) {
	o := healthy()
	for i := range o.Deployments {
		o.Deployments[i].Namespace = "limits"
	}
	o.Namespace = "limits"
	r := New(o)
	if r.Operator == nil || r.Operator.Namespace != "limits" || len(r.Problems) != 0 {
		t.Errorf("%+v, problems %v", r.Operator, r.Problems)
	}
	o.Namespace = ""
	r = New(o)
	if len(r.Problems) != 1 || r.Problems[0].Do != "set --operator-namespace=limits" || !strings.Contains(r.Problems[0].Message, "namespace limits has one") {
		t.Errorf("problems %+v", r.Problems)
	}
}

func TestNew_GroupsReadyPoliciesThatAreNotEnforced(t *testing.T) {
	o := healthy()
	old := condition("Enforced", "True", "RequestDecided")
	old.ObservedGeneration = 2
	ready := condition("Ready", "True", "Programmed")
	o.Policies = append(o.Policies,
		policy("d", ready, condition("Enforced", "Unknown", "Pending")), policy("c", ready, old),
		policy("b", ready, condition("Enforced", "False", "NoRequests")),
		policy("e", condition("Ready", "False", "Invalid"), condition("Enforced", "False", "Invalid")))
	got := New(o).Policies
	want := []NotEnforced{{"", []string{"shop/c"}}, {"NoRequests", []string{"_cluster/floor", "shop/b"}}, {"Pending", []string{"shop/d"}}}
	if diff := cmp.Diff(want, got.NotEnforced); diff != "" || got.Enforced != 1 {
		t.Errorf("%d enforced; -want +got:\n%s", got.Enforced, diff)
	}
	if diff := cmp.Diff([]Policy{{"shop/e", false, "Invalid", "message of Invalid", "False"}}, got.List); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
