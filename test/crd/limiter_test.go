package crd

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-dev/weir/api/v1alpha1"
	ac "github.com/weir-dev/weir/api/v1alpha1/applyconfiguration/api/v1alpha1"
)

func TestLimiter_IsStoredAsAppliedWithReplicas(t *testing.T) {
	n := newNamespace(t)
	for name, c := range map[string]struct{ change, want string }{
		"of a minimal spec": {`{}`, `
replicas: 2
redis: {addresses: ["redis:6379"]}
`},
		"of a spec that sets some fields of each part": {`
spec:
  replicas: 0
  redis: {mode: Cluster, tls: {}}
  identity: {ip: {trustedProxies: [10.0.0.0/8]}, tenant: {header: X-Org}, user: {}}
  autoscaling: {maxReplicas: 8}
  podDisruptionBudget: {}
`, `
replicas: 0
redis: {mode: Cluster, addresses: ["redis:6379"], tls: {}}
identity: {ip: {trustedProxies: [10.0.0.0/8]}, tenant: {header: X-Org}, user: {}}
autoscaling: {maxReplicas: 8}
podDisruptionBudget: {}
`},
	} {
		t.Run(name, func(t *testing.T) {
			written := n.object(t, limiters(), c.change)
			if err := n.Create(t.Context(), written, client.DryRunAll); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(asJSON(t, parse(t, c.want)), asJSON(t, written.Object["spec"])); diff != "" {
				t.Errorf("spec (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(asJSON(t, parse(t, `{observedGeneration: -1}`)), asJSON(t, written.Object["status"])); diff != "" {
				t.Errorf("status (-want +got):\n%s", diff)
			}
		})
	}
}

func TestLimiter_IsStoredAsAppliedWhenCreatedFromGoTypes(t *testing.T) {
	n := newNamespace(t)
	written := &v1alpha1.Limiter{
		ObjectMeta: metav1.ObjectMeta{Namespace: n.name, Name: "typed"},
		Spec:       v1alpha1.LimiterSpec{Redis: v1alpha1.Redis{Addresses: []v1alpha1.RedisAddress{"redis:6379"}}},
	}
	if err := n.Create(t.Context(), written, client.DryRunAll); err != nil {
		t.Fatal(err)
	}
	want := v1alpha1.LimiterSpec{
		Replicas: new(int32(2)),
		Redis:    v1alpha1.Redis{Addresses: []v1alpha1.RedisAddress{"redis:6379"}},
	}
	if diff := cmp.Diff(want, written.Spec); diff != "" {
		t.Errorf("spec (-want +got):\n%s", diff)
	}
}

func TestLimiter_RoundTripsThroughGoTypes(t *testing.T) {
	n := newNamespace(t)
	secret := &v1alpha1.SecretReference{Name: "redis"}
	written := &v1alpha1.Limiter{
		ObjectMeta: metav1.ObjectMeta{Namespace: n.name, Name: "typed"},
		Spec: v1alpha1.LimiterSpec{
			Replicas: new(int32(0)),
			Redis: v1alpha1.Redis{
				Mode: v1alpha1.RedisSentinel, Addresses: []v1alpha1.RedisAddress{"a:1", "[2001:db8::7]:2"}, Database: 7, MasterName: "weir",
				CredentialsSecretRef: secret, OperatorCredentialsSecretRef: &v1alpha1.SecretReference{Name: "operator"}, TLS: &v1alpha1.RedisTLS{SecretRef: secret}, Timeout: "1s",
			},
			PolicySelector: &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "edge"}},
			PolicyNamespaceSelector: &metav1.LabelSelector{
				MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "team", Operator: metav1.LabelSelectorOpExists}},
			},
			Identity: v1alpha1.IdentityTable{
				IP:     v1alpha1.IPIdentity{TrustedProxies: []v1alpha1.CIDR{"10.0.0.0/8"}, IPv6PrefixLength: 56, Header: v1alpha1.AddressHeaderForwarded},
				Tenant: v1alpha1.TenantIdentity{Header: "X-T"}, User: v1alpha1.UserIdentity{Header: "X-U"}, APIKey: v1alpha1.APIKeyIdentity{Header: "X-K"},
			},
			Endpoints: v1alpha1.Endpoints{
				HTTP: v1alpha1.HTTPEndpoint{
					TLS: &v1alpha1.EndpointTLS{
						SecretRef: v1alpha1.SecretReference{Name: "http"}, ClientCASecretRef: secret, ClientNames: []v1alpha1.ClientName{"spiffe://a/b"},
					},
					ProxyProtocolFrom: []v1alpha1.CIDR{"192.0.2.0/24"},
				},
				ForwardAuth: v1alpha1.ForwardAuthEndpoint{ClaimsHeader: "X-Claims"},
				GRPC: v1alpha1.GRPCEndpoint{
					TLS:     &v1alpha1.EndpointTLS{SecretRef: v1alpha1.SecretReference{Name: "grpc"}},
					Refunds: v1alpha1.RefundsAllowed, UnitMultiplier: true, ErrorResponse: true,
				},
				Drain: "0s",
			},
			NetworkPolicy: v1alpha1.LimiterNetworkPolicy{From: v1alpha1.NetworkSources{
				HTTP: []networkingv1.NetworkPolicyPeer{{PodSelector: &metav1.LabelSelector{}}},
				GRPC: []networkingv1.NetworkPolicyPeer{{IPBlock: &networkingv1.IPBlock{CIDR: "192.0.2.0/24"}}},
			}},
			Identifiers:     v1alpha1.IdentifierBound{Max: new(int64(250_000)), Overflow: v1alpha1.OverflowDeny},
			CounterGroup:    "checkout",
			LogLevel:        v1alpha1.LogLevelDebug,
			Tracing:         v1alpha1.Tracing{Endpoint: "http://collector:4317", SampleOneIn: 5},
			DecisionLog:     v1alpha1.DecisionLog{DenialsPerSecond: 10, SampleOneIn: 5, Identifiers: v1alpha1.LoggedIdentifiersOmitted},
			ResponseHeaders: v1alpha1.ResponseHeadersNone, Image: "registry.example/weir:v1",
			PodTemplate: v1alpha1.PodTemplate{
				Resources:    &corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("250m")}},
				NodeSelector: map[string]string{"pool": "edge"}, Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
				Affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{
					Weight:     1,
					Preference: corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "zone", Operator: corev1.NodeSelectorOpExists}}},
				}}}},
				Labels: map[string]string{"team": "edge"}, Annotations: map[string]string{"note": "text"},
			},
			Autoscaling:         &v1alpha1.Autoscaling{MinReplicas: 3, MaxReplicas: 9, TargetCPUUtilization: "60%"},
			PodDisruptionBudget: v1alpha1.DisruptionBudget{MaxUnavailable: 2},
		},
	}
	want := written.DeepCopy()
	if err := n.Create(t.Context(), written); err != nil {
		t.Fatal(err)
	}
	var got v1alpha1.Limiter
	if err := n.Get(t.Context(), client.ObjectKeyFromObject(written), &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(asJSON(t, want.Spec), asJSON(t, got.Spec)); diff != "" {
		t.Errorf("spec (-written +read):\n%s", diff)
	}
}

func TestLimiter_SupportsScaleAndStatus(t *testing.T) {
	n := newNamespace(t)
	if err := n.Create(t.Context(), n.object(t, limiters(), `{}`)); err != nil {
		t.Fatal(err)
	}
	status := ac.LimiterStatus().
		WithObservedGeneration(1).
		WithConditions(condition(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonReplicasMissing)).
		WithReplicas(3).WithReadyReplicas(2).WithSelector("app.kubernetes.io/name=weir").WithRevision("sha256:00").WithEnforcingReplicas(2).
		WithPolicies(ac.PolicyCount().WithAccepted(10).WithRejected(1)).
		WithRedis(ac.RedisState().WithReachable(true).WithPrimaries(3).WithVersion("7.0.15")).
		WithScripts(ac.LoadedScript().WithName("spend").WithSHA("da39a3ee5e6b4b0d3255bfef95601890afd80709").WithLoadedOn(3))
	if err := n.Status().Apply(t.Context(), ac.Limiter("small", n.name).WithStatus(status), client.ForceOwnership); err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"wlim", "weir"} {
		if out := n.kubectl(t, "get", kind, "-n", n.name, "-o", "name"); !strings.Contains(out, "limiter.weir.dev/small") {
			t.Errorf("kubectl get %s does not list the Limiter: %s", kind, out)
		}
	}
	n.kubectl(t, "scale", "limiter/small", "-n", n.name, "--replicas=5")

	var got v1alpha1.Limiter
	if err := n.Get(t.Context(), client.ObjectKey{Namespace: n.name, Name: "small"}, &got); err != nil {
		t.Fatal(err)
	}
	if got.Spec.Replicas == nil || *got.Spec.Replicas != 5 {
		t.Errorf("spec.replicas is %v after scaling to 5", got.Spec.Replicas)
	}
	if diff := cmp.Diff(asJSON(t, status), asJSON(t, got.Status)); diff != "" {
		t.Errorf("status (-applied +read):\n%s", diff)
	}
	scale := &unstructured.Unstructured{}
	if err := n.SubResource("scale").Get(t.Context(), &got, scale); err != nil {
		t.Fatal(err)
	}
	want := parse(t, `{replicas: 3, selector: app.kubernetes.io/name=weir}`)
	if diff := cmp.Diff(asJSON(t, want), asJSON(t, scale.Object["status"])); diff != "" {
		t.Errorf("status of the scale (-want +got):\n%s", diff)
	}
	for _, c := range []struct {
		args []string
		want [][]string
	}{
		{[]string{"limiters"}, [][]string{
			{"NAME", "READY", "REPLICAS", "POLICIES", "REDIS", "AGE"},
			{"small", "False", "3", "10", "true", "*"},
		}},
		{[]string{"limiters", "-o", "wide"}, [][]string{
			{"NAME", "READY", "REPLICAS", "POLICIES", "REDIS", "AGE", "REASON", "ENFORCING", "REJECTED"},
			{"small", "False", "3", "10", "true", "*", "ReplicasMissing", "2", "1"},
		}},
	} {
		out := n.kubectl(t, append([]string{"get", "-n", n.name}, c.args...)...)
		if diff := cmp.Diff(c.want, table(out)); diff != "" {
			t.Errorf("kubectl get %v (-want +got):\n%s\n%s", c.args, diff, out)
		}
	}
}

func TestLimiter_ExplainsInvalidFields(t *testing.T) {
	n := newNamespace(t)
	const address, timeout = "spec.redis.addresses[0]", "spec.redis.timeout"
	withAddress := func(address string) string { return redis(`{addresses: ["` + address + `"]}`) }
	withTimeout := func(timeout string) string { return redis(`{timeout: "` + timeout + `"}`) }
	for _, c := range []struct{ name, change, field, message string }{
		{"an address without a port", withAddress("redis"), address, addressMessage},
		{"an address with port 0", withAddress("redis:0"), address, addressMessage},
		{"an address with a port too high", withAddress("redis:65536"), address, addressMessage},
		{"an address with a port that is not a number", withAddress("redis:redis"), address, addressMessage},
		{"an address with a database", withAddress("redis:6379/1"), address, addressMessage},
		{"an address with a password", withAddress("secret@redis:6379"), address, addressMessage},
		{"an address with a space", withAddress("redis :6379"), address, addressMessage},
		{"an address without a host", withAddress(":6379"), address, addressMessage},
		{"an IPv6 address without brackets", withAddress("2001:db8::7:6379"), address, addressMessage},
		{"an invalid IPv6 address", withAddress("[2001:db8]:6379"), address, addressMessage},
		{"an address with an empty label", withAddress("redis..shop:6379"), address, addressMessage},
		{"an empty address", withAddress(""), address, addressMessage},
		{"a timeout of zero", withTimeout("0ms"), timeout, timeoutMessage},
		{"a timeout with a fraction", withTimeout("0.5s"), timeout, timeoutMessage},
		{"a timeout in microseconds", withTimeout("500us"), timeout, timeoutMessage},
		{"a timeout in minutes", withTimeout("1m"), timeout, timeoutMessage},
		{"a timeout without a unit", withTimeout("50"), timeout, timeoutMessage},
		{"an empty timeout", withTimeout(""), timeout, timeoutMessage},
		{"a negative timeout", withTimeout("-1s"), timeout, timeoutMessage},
		{"an empty image", `spec: {image: ""}`, "spec.image", "image must be an image reference without spaces, such as registry.example/weir:v1"},
		{"an empty masterName", redis(`{mode: Sentinel, masterName: ""}`), "spec.redis.masterName", "masterName must be one or more letters, digits, dots, hyphens and underscores"},
		{"the label app.kubernetes.io/instance, which Weir sets", template(`{labels: {app.kubernetes.io/instance: mine}}`), "spec.podTemplate.labels", reservedLabelsMessage},
		{"the label app.kubernetes.io/component, which Weir sets", template(`{labels: {app.kubernetes.io/component: mine}}`), "spec.podTemplate.labels", reservedLabelsMessage},
		{"a trusted proxy without a prefix length", identity(`{ip: {trustedProxies: [10.0.0.7]}}`), "spec.identity.ip.trustedProxies[0]", cidrMessage},
		{"maxReplicas below minReplicas", `spec: {autoscaling: {minReplicas: 2, maxReplicas: 1}}`, "spec.autoscaling.minReplicas", "minReplicas must not be greater than maxReplicas"},
	} {
		t.Run(c.name, func(t *testing.T) {
			checkRejection(t, n.tryCreateOf(t, limiters(), c.change), c.field, c.message)
		})
	}
}

func TestLimiter_AcceptsValidFields(t *testing.T) {
	n := newNamespace(t)
	for _, c := range []struct{ name, change string }{
		{"an IPv4 address", redis(`{addresses: ["10.0.0.7:6379"]}`)},
		{"a host name with upper-case letters", redis(`{addresses: ["Redis.Shop.svc.cluster.local:6379"]}`)},
		{"a host name with a trailing dot", redis(`{addresses: ["redis.shop.svc.cluster.local.:6379"]}`)},
		{"an IPv6 address that contains an IPv4 address", redis(`{addresses: ["[64:ff9b::203.0.113.7]:6379"]}`)},
		{"one Sentinel", redis(`{mode: Sentinel, masterName: m}`)},
		{"Redis Cluster with one address", redis(`{mode: Cluster}`)},
		{"mode Auto", redis(`{mode: Auto}`)},
		{"mode Auto with Sentinels", redis(`{mode: Auto, addresses: ["a:26379", "b:26379"], masterName: m, database: 3}`)},
		{"mode Auto with several nodes", redis(`{mode: Auto, addresses: ["a:6379", "b:6379"]}`)},
		{"a database number", redis(`{database: 15}`)},
		{"TLS with the CAs of the system", redis(`{tls: {}}`)},
		{"zero replicas", `spec: {replicas: 0}`},
		{"selectors that select everything", `spec: {policySelector: {}, policyNamespaceSelector: {}}`},
		{"an image by digest", `spec: {image: "registry.example/weir@sha256:0000"}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := n.tryCreateOf(t, limiters(), c.change); err != nil {
				t.Error(err)
			}
		})
	}
}
