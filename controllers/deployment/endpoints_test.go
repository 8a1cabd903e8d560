package deployment

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-dev/weir/api/v1alpha1"
)

func TestEndpoints_WaitForTheirSecrets(t *testing.T) {
	h := newHarness(t)
	h.create("default", func(s *v1alpha1.LimiterSpec) {
		s.Endpoints.GRPC.TLS = &v1alpha1.EndpointTLS{
			SecretRef: v1alpha1.SecretReference{Name: "certificate"}, ClientCASecretRef: &v1alpha1.SecretReference{Name: "certificate"},
		}
	})
	expectMissing := func(text string) {
		t.Helper()
		h.reconcile("default")
		h.expectCondition(v1alpha1.ConditionProgrammed, no, v1alpha1.ReasonSecretNotFound)
		if got := h.message(v1alpha1.ConditionProgrammed); !strings.Contains(got, text) {
			t.Errorf("the message of Programmed is %q, want %q", got, text)
		}
	}
	expectMissing("spec.endpoints.grpc.tls.secretRef: Secret certificate does not exist in namespace " + h.namespace)
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: h.namespace, Name: "certificate"},
		StringData: map[string]string{certificateKey: "x", privateKeyKey: "x"},
	}
	h.must(h.kube.Create(t.Context(), secret))
	expectMissing("spec.endpoints.grpc.tls.clientCASecretRef: Secret certificate has no key ca.crt: add it")
	secret.StringData = map[string]string{caKey: "x"}
	h.must(h.kube.Update(t.Context(), secret))
	h.reconcile("default")
	h.expectCondition(v1alpha1.ConditionProgrammed, yes, v1alpha1.ReasonDeployed)
}

// The process rejects these networks when it starts. The existing pods must not be replaced.
func TestEndpoints_RejectNetworksWithAllAddresses(t *testing.T) {
	for field, set := range map[string]func(*v1alpha1.LimiterSpec, []v1alpha1.CIDR){
		"spec.identity.ip.trustedProxies[1]":       func(s *v1alpha1.LimiterSpec, list []v1alpha1.CIDR) { s.Identity.IP.TrustedProxies = list },
		"spec.endpoints.http.proxyProtocolFrom[1]": func(s *v1alpha1.LimiterSpec, list []v1alpha1.CIDR) { s.Endpoints.HTTP.ProxyProtocolFrom = list },
	} {
		for _, all := range []v1alpha1.CIDR{"0.0.0.0/0", "::/0"} {
			limiter := goldenLimiter(t, "minimal")
			set(&limiter.Spec, []v1alpha1.CIDR{"10.0.0.0/8", all})
			if err := checkEndpoints(limiter); err == nil || !strings.HasPrefix(err.Error(), field+": "+string(all)+" contains all addresses") {
				t.Errorf("%s %s: %v", field, all, err)
			}
		}
	}
	if err := checkEndpoints(goldenLimiter(t, "full")); err != nil {
		t.Error(err)
	}
}

func TestNetworkPolicy_RestrictsThePeersOfEachPort(t *testing.T) {
	gateways := []networkingv1.NetworkPolicyPeer{{NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"team": "gateways"}}}}
	h := newHarness(t)
	h.create("default", nil)
	// peers returns the number of peers by port; 0 means that every peer can connect.
	peers := func() map[int32]int {
		all := map[int32]int{}
		for _, rule := range owned[networkingv1.NetworkPolicy](h, "default").Spec.Ingress {
			for _, port := range rule.Ports {
				all[port.Port.IntVal] = len(rule.From)
			}
			if len(rule.Ports) == 0 {
				t.Error("a rule applies to all ports")
			}
		}
		return all
	}
	expect := func(when string, want map[int32]int) {
		t.Helper()
		h.reconcile("default")
		h.expectCondition(v1alpha1.ConditionProgrammed, yes, v1alpha1.ReasonDeployed)
		got := peers()
		for _, port := range []int32{8080, 8081, 9090} {
			if n, found := got[port]; !found || n != want[port] || len(got) != 4 || got[9092] != 1 { // only the operator calls 9092
				t.Errorf("%s: peers by port %v, want %v", when, got, want)
			}
		}
	}
	expect("at first", map[int32]int{})
	h.edit(func(s *v1alpha1.LimiterSpec) { s.NetworkPolicy.From.GRPC = gateways })
	expect("with peers of gRPC", map[int32]int{8081: 1})
	h.edit(func(s *v1alpha1.LimiterSpec) {
		s.NetworkPolicy.From = v1alpha1.NetworkSources{HTTP: slices.Repeat(gateways, 2), GRPC: gateways, Metrics: slices.Repeat(gateways, 3)}
	})
	expect("with peers of all ports", map[int32]int{8080: 2, 8081: 1, 9090: 3})
	h.edit(func(s *v1alpha1.LimiterSpec) { s.NetworkPolicy.From.GRPC = []networkingv1.NetworkPolicyPeer{{}} })
	h.reconcile("default")
	h.expectCondition(v1alpha1.ConditionProgrammed, no, v1alpha1.ReasonRefused)
	if got := peers(); got[8081] != 1 {
		t.Errorf("an invalid peer changed the peers to %v", got)
	}
}
