package deployment

import (
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	"pgregory.net/rapid"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/config/crd"
	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/redisclient"
)

var update = flag.Bool("update", false, "write the golden files")

var testOptions = Options{
	Image: "weir:test", KeyPrefix: "weir:", NetworkPolicies: true, OperatorNamespace: "weir-system", HashKey: mustHashKey("the master key of the installation"),
}

func mustHashKey(text string) *limiter.HashKey {
	key, err := limiter.NewHashKey([]byte(text))
	if err != nil {
		panic(err)
	}
	return key
}

// limiterOf decodes a Limiter and sets the defaults of the API server.
func limiterOf(t testing.TB, text []byte) *v1alpha1.Limiter {
	t.Helper()
	var definition apiextensionsv1.CustomResourceDefinition
	must(t, yaml.UnmarshalStrict([]byte(crd.Limiters()), &definition))
	var internal apiextensions.JSONSchemaProps
	must(t, apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(
		definition.Spec.Versions[0].Schema.OpenAPIV3Schema, &internal, nil))
	structural, err := schema.NewStructural(&internal)
	must(t, err)
	var object map[string]any
	must(t, yaml.UnmarshalStrict(text, &object))
	defaulting.Default(object, structural)
	var limiter v1alpha1.Limiter
	must(t, runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object, &limiter, true))
	return &limiter
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func manifest(t testing.TB, objects []client.Object) string {
	t.Helper()
	var texts []string
	for _, object := range objects {
		all, err := fields(object)
		must(t, err)
		text, err := yaml.Marshal(all)
		must(t, err)
		texts = append(texts, string(text))
	}
	return strings.Join(texts, "---\n")
}

func TestRender_MatchesGoldenFiles(t *testing.T) {
	inputs, err := filepath.Glob("testdata/*.in.yaml")
	must(t, err)
	if len(inputs) == 0 {
		t.Fatal("no testdata/*.in.yaml")
	}
	for _, input := range inputs {
		t.Run(strings.TrimSuffix(filepath.Base(input), ".in.yaml"), func(t *testing.T) {
			text, err := os.ReadFile(input)
			must(t, err)
			options, secrets := testOptions, Secrets{}
			if strings.Contains(string(text), "# with PodMonitors") {
				options.PodMonitors = true
				options.PodMonitorLabels = map[string]string{"release": "prometheus", "app.kubernetes.io/managed-by": "other"}
			}
			if strings.Contains(string(text), "# with ca.crt, tls.crt, tls.key") {
				secrets.TLS = Keys{caKey, certificateKey, privateKeyKey}
			}
			got := manifest(t, Render(limiterOf(t, text), secrets, options))
			golden := strings.TrimSuffix(input, ".in.yaml") + ".out.yaml"
			if *update {
				must(t, os.WriteFile(golden, []byte(got), 0o644))
			}
			want, err := os.ReadFile(golden)
			must(t, err)
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("%s; run go test -update to write it (-want +got):\n%s", golden, diff)
			}
		})
	}
}

// The parser of the limiter reads the rendered URL.
func TestRedisURL_IsParsedByTheLimiterAsIntended(t *testing.T) {
	tests := map[string]struct {
		redis v1alpha1.Redis
		want  redisclient.Options
	}{
		"one server": {
			v1alpha1.Redis{Mode: v1alpha1.RedisStandalone, Addresses: []v1alpha1.RedisAddress{"redis.redis:6380"}, Database: 3},
			redisclient.Options{Mode: redisclient.ModeStandalone, Addresses: []string{"redis.redis:6380"}, Database: 3},
		},
		"one server at an IPv6 address": {
			v1alpha1.Redis{Mode: v1alpha1.RedisStandalone, Addresses: []v1alpha1.RedisAddress{"[2001:db8::7]:6379"}},
			redisclient.Options{Mode: redisclient.ModeStandalone, Addresses: []string{"[2001:db8::7]:6379"}},
		},
		"Sentinels": {
			v1alpha1.Redis{
				Mode: v1alpha1.RedisSentinel, MasterName: "my_primary.1", Database: 1,
				Addresses: []v1alpha1.RedisAddress{"a:26379", "[2001:db8::7]:26379"},
			},
			redisclient.Options{
				Mode: redisclient.ModeSentinel, MasterName: "my_primary.1", Database: 1, Addresses: []string{"a:26379", "[2001:db8::7]:26379"},
			},
		},
		"a cluster with one address": {
			v1alpha1.Redis{Mode: v1alpha1.RedisCluster, Addresses: []v1alpha1.RedisAddress{"a:6379"}},
			redisclient.Options{Mode: redisclient.ModeCluster, Addresses: []string{"a:6379"}},
		},
		"one address": {
			v1alpha1.Redis{Addresses: []v1alpha1.RedisAddress{"a:6379"}, Database: 3},
			redisclient.Options{Mode: redisclient.ModeStandalone, Addresses: []string{"a:6379"}, Database: 3},
		},
		"several addresses": {
			v1alpha1.Redis{Addresses: []v1alpha1.RedisAddress{"a:6379", "b:6379"}},
			redisclient.Options{Mode: redisclient.ModeCluster, Addresses: []string{"a:6379", "b:6379"}},
		},
		"Auto with a name": {
			v1alpha1.Redis{Mode: v1alpha1.RedisAuto, MasterName: "weir", Addresses: []v1alpha1.RedisAddress{"a:26379"}},
			redisclient.Options{Mode: redisclient.ModeSentinel, MasterName: "weir", Addresses: []string{"a:26379"}},
		},
		"a cluster with two addresses": {
			v1alpha1.Redis{Mode: v1alpha1.RedisCluster, Addresses: []v1alpha1.RedisAddress{"a:6379", "b:6379"}},
			redisclient.Options{Mode: redisclient.ModeCluster, Addresses: []string{"a:6379", "b:6379"}},
		},
	}
	for name, test := range tests {
		for _, secure := range []bool{false, true} {
			if secure {
				test.redis.TLS = &v1alpha1.RedisTLS{}
			}
			got, err := redisclient.ParseURL(redisURL(test.redis))
			if err != nil {
				t.Errorf("%s: %s: %v", name, redisURL(test.redis), err)
			}
			if (got.TLS != nil) != secure {
				t.Errorf("%s: %s: TLS %v", name, redisURL(test.redis), got.TLS)
			}
			got.TLS = nil
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("%s: %s (-want +got):\n%s", name, redisURL(test.redis), diff)
			}
		}
	}
}

// drawLimiter draws any Limiter.
func drawLimiter(t *rapid.T, name, namespace string) *v1alpha1.Limiter {
	limiter := &v1alpha1.Limiter{}
	limiter.Name, limiter.Namespace = name, namespace
	limiter.Spec.Replicas = new(rapid.Int32Range(0, 1000).Draw(t, "replicas"))
	limiter.Spec.Image = rapid.StringMatching(`([a-z]{1,9}:[a-z]{1,9})?`).Draw(t, "image")
	limiter.Spec.Redis.Mode = rapid.SampledFrom([]v1alpha1.RedisMode{
		"", v1alpha1.RedisAuto, v1alpha1.RedisStandalone, v1alpha1.RedisSentinel, v1alpha1.RedisCluster,
	}).Draw(t, "mode")
	for range rapid.IntRange(1, 3).Draw(t, "addresses") {
		address := rapid.StringMatching(`[a-z]{1,9}:[1-9][0-9]{0,3}`).Draw(t, "address")
		limiter.Spec.Redis.Addresses = append(limiter.Spec.Redis.Addresses, v1alpha1.RedisAddress(address))
	}
	if rapid.Bool().Draw(t, "credentials") {
		limiter.Spec.Redis.CredentialsSecretRef = &v1alpha1.SecretReference{Name: "credentials"}
	}
	if rapid.Bool().Draw(t, "tls") {
		limiter.Spec.Redis.TLS = &v1alpha1.RedisTLS{SecretRef: &v1alpha1.SecretReference{Name: "tls"}}
	}
	if rapid.Bool().Draw(t, "autoscaling") {
		limiter.Spec.Autoscaling = &v1alpha1.Autoscaling{MinReplicas: 1, MaxReplicas: rapid.Int32Range(1, 9).Draw(t, "most"), TargetCPUUtilization: "70%"}
	}
	text := rapid.StringMatching(`[a-z]{1,5}`)
	limiter.Spec.PodTemplate.Labels = rapid.MapOfN(text, text, 0, 5).Draw(t, "labels")
	limiter.Spec.PodTemplate.Annotations = rapid.MapOfN(text, text, 0, 5).Draw(t, "annotations")
	limiter.Spec.PodTemplate.NodeSelector = rapid.MapOfN(text, text, 0, 5).Draw(t, "nodes")
	return limiter
}

func TestAutoscaler_ReplacesMissingFieldsByTheDefaults(t *testing.T) {
	for most, least := range map[int32]int32{9: 2, 2: 2, 1: 1} {
		limiter := &v1alpha1.Limiter{Spec: v1alpha1.LimiterSpec{Autoscaling: &v1alpha1.Autoscaling{MaxReplicas: most}}}
		spec := autoscaler(limiter).Spec
		if target := *spec.Metrics[0].Resource.Target.AverageUtilization; *spec.MinReplicas != least || target != 70 {
			t.Errorf("with maxReplicas %d: at least %d replicas at %d %%, want %d at 70 %%", most, *spec.MinReplicas, target, least)
		}
	}
}

func TestRender_IsDeterministicAndKeepsImmutableFields(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		name := rapid.StringMatching(`[a-z]([a-z0-9-]{0,48}[a-z0-9])?`).Draw(r, "name")
		namespace := rapid.StringMatching(`[a-z]{1,63}`).Draw(r, "namespace")
		options := Options{Image: "weir:1", NetworkPolicies: rapid.Bool().Draw(r, "policies"), PodMonitors: rapid.Bool().Draw(r, "monitors")}
		one, other := drawLimiter(r, name, namespace), drawLimiter(r, name, namespace)
		secrets := Secrets{TLS: Keys{caKey}}
		objects := Render(one, secrets, options)
		if again := Render(one.DeepCopy(), secrets, options); !reflect.DeepEqual(objects, again) {
			r.Errorf("the same Limiter renders differently:\n%s", cmp.Diff(manifest(t, objects), manifest(t, again)))
		}
		for _, object := range objects {
			if n := object.GetName(); len(n) > 63 || !strings.HasSuffix(n, name) || object.GetNamespace() != namespace {
				r.Errorf("%s has the name %s/%s", object.GetObjectKind().GroupVersionKind(), object.GetNamespace(), n)
			}
			if owners := object.GetOwnerReferences(); len(owners) != 1 || owners[0].Controller == nil || !*owners[0].Controller {
				r.Errorf("%s is owned by %v", object.GetName(), owners)
			}
		}
		before := deployment(one, secrets, options).Spec
		after := deployment(other, secrets, options).Spec
		if diff := cmp.Diff(before.Selector, after.Selector); diff != "" {
			r.Errorf("an edit changes the selector:\n%s", diff)
		}
		for key, value := range after.Selector.MatchLabels {
			if after.Template.Labels[key] != value {
				r.Errorf("the selector's %s=%s is not on the pods: %v", key, value, after.Template.Labels)
			}
		}
		if diff := cmp.Diff(service(one, options).Spec.Selector, after.Selector.MatchLabels); diff != "" {
			r.Errorf("the Service and the Deployment select different pods:\n%s", diff)
		}
	})
}

func TestDeployment_ScalingKeepsThePodTemplate(t *testing.T) {
	limiter := goldenLimiter(t, "minimal")
	before := deployment(limiter, Secrets{}, testOptions)
	limiter.Spec.Replicas = new(int32(9))
	after := deployment(limiter, Secrets{}, testOptions)
	if diff := cmp.Diff(before.Spec.Template, after.Spec.Template); diff != "" {
		t.Errorf("scaling changes the pod template:\n%s", diff)
	}
}

func TestCheckTemplate_RejectsTooLittleMemory(t *testing.T) {
	for memory, fits := range map[string]bool{"127Mi": false, "128Mi": true, "1Gi": true} {
		limiter := goldenLimiter(t, "minimal")
		limiter.Spec.PodTemplate.Resources = resourcesWithMemory(memory)
		err := checkTemplate(limiter)
		if (err == nil) != fits {
			t.Errorf("a limit of %s: %v", memory, err)
		}
	}
}

// A Limiter may have been stored before the CRD rejected such a timeout.
func TestCheckTemplate_RejectsALongRedisTimeoutWithThrottling(t *testing.T) {
	enabled, disabled := &v1alpha1.KubernetesThrottle{}, &v1alpha1.KubernetesThrottle{Mode: v1alpha1.ThrottleModeDisabled}
	for _, test := range []struct {
		timeout  v1alpha1.Duration
		throttle *v1alpha1.KubernetesThrottle
		starts   bool
	}{
		{"750ms", enabled, true}, {"751ms", enabled, false}, {"1s", enabled, false}, {"", enabled, true}, {"10s", disabled, true}, {"10s", nil, true},
	} {
		limiter := goldenLimiter(t, "minimal")
		limiter.Spec.Redis.Timeout, limiter.Spec.KubernetesThrottle = test.timeout, test.throttle
		if err := checkTemplate(limiter); (err == nil) != test.starts {
			t.Errorf("%+v: %v", test, err)
		}
	}
}

func resourcesWithMemory(limit string) *corev1.ResourceRequirements {
	return &corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(limit)}}
}

func goldenLimiter(t testing.TB, name string) *v1alpha1.Limiter {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name+".in.yaml"))
	must(t, err)
	return limiterOf(t, text)
}
