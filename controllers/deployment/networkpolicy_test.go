package deployment

import (
	"os"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/test/fixture/kubetest"
)

// expectRedisPorts fails unless the NetworkPolicy allows the pods to reach Redis at exactly these ports. 0 means every port.
func (h *harness) expectRedisPorts(when string, want ...int32) {
	h.Helper()
	var got []int32
	for _, port := range owned[networkingv1.NetworkPolicy](h, "default").Spec.Egress[redisRule].Ports {
		if port.Port == nil {
			got = append(got, 0)
		} else {
			got = append(got, port.Port.IntVal)
		}
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		h.Errorf("%s: pods may reach Redis at %v, want %v", when, got, want)
	}
}

func withRedisAddress(to v1alpha1.RedisAddress) func(*v1alpha1.LimiterSpec) {
	return func(s *v1alpha1.LimiterSpec) { s.Redis.Addresses = []v1alpha1.RedisAddress{to} }
}

func TestNetworkPolicy_RestrictsTheCallersOfTheWebhook(t *testing.T) {
	servers := []networkingv1.NetworkPolicyPeer{{IPBlock: &networkingv1.IPBlock{CIDR: "10.0.0.0/28"}}}
	l := goldenLimiter(t, "throttle")
	callers := func() (peers []networkingv1.NetworkPolicyPeer, rules int) {
		for _, rule := range networkPolicy(l, testOptions).Spec.Ingress {
			for _, port := range rule.Ports {
				if port.Port.IntVal == 9443 {
					peers, rules = rule.From, rules+1
				}
			}
		}
		return peers, rules
	}
	if peers, rules := callers(); len(peers) != 0 || rules != 1 {
		t.Errorf("by default, %d rules admit %v", rules, peers)
	}
	l.Spec.NetworkPolicy.From.Throttle = servers
	if peers, rules := callers(); !equality.Semantic.DeepEqual(peers, servers) || rules != 1 {
		t.Errorf("%d rules admit %v, want the API servers only", rules, peers)
	}
}

func TestNetworkPolicy_AllowsOnlyTheOperatorToCallTheAdminEndpoint(t *testing.T) {
	var got []networkingv1.NetworkPolicyIngressRule
	for _, rule := range networkPolicy(goldenLimiter(t, "minimal"), testOptions).Spec.Ingress {
		for _, port := range rule.Ports {
			if port.Port.IntVal == 9092 {
				got = append(got, rule)
			}
		}
	}
	want := []networkingv1.NetworkPolicyPeer{{
		NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": "weir-system"}},
		PodSelector:       &metav1.LabelSelector{MatchLabels: map[string]string{"app.kubernetes.io/name": "weir", "app.kubernetes.io/component": "operator"}},
	}}
	if len(got) != 1 || len(got[0].Ports) != 1 || !equality.Semantic.DeepEqual(got[0].From, want) {
		t.Errorf("rules %+v, want one from %+v", got, want)
	}
}

func TestNetworkPolicy_KeepsOldRedisPortsUntilOldPodsAreGone(t *testing.T) {
	h := newHarness(t)
	h.create("default", nil)
	h.reconcile("default")
	h.expectRedisPorts("at first", 6379)
	h.setReadyReplicas(2)
	h.edit(withRedisAddress("redis.redis:6380"))
	h.reconcile("default")
	h.expectRedisPorts("after an edit", 6379, 6380)
	roll := func(replicas, updated, terminating int32) (stored bool) {
		t.Helper()
		d := h.deployment("default")
		d.Status.ObservedGeneration, d.Status.Replicas, d.Status.UpdatedReplicas = d.Generation, replicas, updated
		d.Status.ReadyReplicas, d.Status.AvailableReplicas, d.Status.TerminatingReplicas = 2, 2, &terminating
		h.must(h.kube.Status().Update(t.Context(), d))
		h.reconcile("default")
		return d.Status.TerminatingReplicas != nil
	}
	roll(3, 1, 0)
	h.expectRedisPorts("while pods are replaced", 6379, 6380)
	h.edit(func(s *v1alpha1.LimiterSpec) {
		s.Redis.Mode, s.Redis.MasterName = v1alpha1.RedisSentinel, "primary"
	})
	h.reconcile("default")
	h.expectRedisPorts("after a second edit meanwhile", 0, 6379, 6380)
	h.restart()
	h.writes = nil
	h.reconcile("default")
	h.writes = nil
	h.reconcile("default")
	h.expectRedisPorts("after a restart", 0, 6379, 6380)
	if len(h.writes) > 0 {
		t.Errorf("nothing has changed, but the controller wrote %q", h.writes)
	}
	switch stored := roll(2, 2, 1); {
	case stored:
		h.expectRedisPorts("while the last old pod terminates", 0, 6379, 6380)
	case os.Getenv(kubetest.KubeVersionEnv) == "":
		t.Error("the API server does not store the number of terminating pods")
	default: // Kubernetes before 1.35 does not report them
		h.expectRedisPorts("while a pod terminates that the Deployment does not report", 0)
	}
	roll(2, 2, 0)
	h.expectRedisPorts("when no old pod is left", 0)
}

func TestNetworkPolicy_KeepsOldRedisPortsWhileTheDeploymentIsBlocked(t *testing.T) {
	missing := func(s *v1alpha1.LimiterSpec) { s.Redis.CredentialsSecretRef = &v1alpha1.SecretReference{Name: "login"} }
	refused := func(s *v1alpha1.LimiterSpec) { s.PodTemplate.Labels = map[string]string{"team": "not a label!"} }
	for name, block := range map[string]func(*v1alpha1.LimiterSpec){"a Secret is missing": missing, "the template is refused": refused} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t)
			h.create("default", nil)
			h.reconcile("default")
			h.setReadyReplicas(2)
			h.edit(func(s *v1alpha1.LimiterSpec) {
				withRedisAddress("redis.redis:6380")(s)
				block(s)
			})
			for range 2 {
				h.reconcile("default")
				h.expectRedisPorts("while blocked", 6379, 6380)
			}
			h.must(h.kube.Create(t.Context(), &corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Namespace: h.namespace, Name: "login"}, StringData: map[string]string{passwordKey: "x"},
			}))
			h.edit(func(s *v1alpha1.LimiterSpec) { s.PodTemplate.Labels = nil })
			h.reconcile("default")
			h.expectCondition(v1alpha1.ConditionProgrammed, yes, v1alpha1.ReasonDeployed)
			h.expectRedisPorts("when no longer blocked", 6379, 6380)
			h.setReadyReplicas(2)
			h.reconcile("default")
			h.expectRedisPorts("when all pods are new", 6380)
		})
	}
}

// A change of the policy by another owner does not count as a port that the pods use.
func TestNetworkPolicy_RemovesPortsThatOthersAdded(t *testing.T) {
	h := newHarness(t)
	h.create("default", nil)
	h.reconcile("default")
	h.setReadyReplicas(2)
	h.reconcile("default")
	policy := owned[networkingv1.NetworkPolicy](h, "default")
	policy.Spec.Egress[redisRule].Ports = append(policy.Spec.Egress[redisRule].Ports, policyPort(corev1.ProtocolTCP, 25))
	h.must(h.kube.Update(t.Context(), policy))
	h.expectRedisPorts("after a change by another owner", 25, 6379)
	h.reconcile("default")
	h.expectRedisPorts("after a reconciliation", 6379)
}
