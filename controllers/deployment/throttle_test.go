package deployment

import (
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/weir-dev/weir/api/v1alpha1"
)

func TestThrottle_WaitsForItsCertificateBeforePodsStart(t *testing.T) {
	h := newHarness(t)
	h.reconciler.Options.OperatorNamespace = h.namespace
	h.create("default", func(s *v1alpha1.LimiterSpec) { s.KubernetesThrottle = &v1alpha1.KubernetesThrottle{} })
	h.reconcile("default")
	h.expectCondition(v1alpha1.ConditionProgrammed, no, v1alpha1.ReasonSecretNotFound)
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: h.namespace, Name: ThrottleSecret}, StringData: map[string]string{certificateKey: "x"},
	}
	h.must(h.kube.Create(t.Context(), secret))
	h.reconcile("default")
	h.expectCondition(v1alpha1.ConditionProgrammed, no, v1alpha1.ReasonSecretNotFound)
	if got := h.message(v1alpha1.ConditionProgrammed); !strings.Contains(got, "spec.kubernetesThrottle") {
		t.Errorf("the message of Programmed is %q", got)
	}
	secret.StringData = map[string]string{privateKeyKey: "x"}
	h.must(h.kube.Update(t.Context(), secret))
	h.reconcile("default")
	h.expectCondition(v1alpha1.ConditionProgrammed, yes, v1alpha1.ReasonDeployed)
	answers := func() bool {
		c := h.deployment("default").Spec.Template.Spec.Containers[0]
		service := owned[corev1.Service](h, "default")
		listens := slices.ContainsFunc(c.Ports, func(p corev1.ContainerPort) bool { return p.Name == "throttle" && p.ContainerPort == 9443 })
		return listens && len(service.Spec.Ports) == 3 && slices.Contains(c.Args, "--throttle-listen=:9443")
	}
	if !answers() {
		t.Error("the pods do not serve API servers")
	}
	h.edit(func(s *v1alpha1.LimiterSpec) { s.KubernetesThrottle.Mode = v1alpha1.ThrottleModeDisabled })
	h.must(h.kube.Delete(t.Context(), secret))
	h.reconcile("default")
	h.expectCondition(v1alpha1.ConditionProgrammed, yes, v1alpha1.ReasonDeployed)
	if answers() {
		t.Error("the pods still serve API servers")
	}
}

// The test adds and removes the condition, as the registration controller does.
func TestThrottle_KeepsPodsServingUntilTheWebhookIsRemoved(t *testing.T) {
	for name, end := range map[string]func(*v1alpha1.LimiterSpec){
		"disabled": func(s *v1alpha1.LimiterSpec) { s.KubernetesThrottle.Mode = v1alpha1.ThrottleModeDisabled },
		"removed":  func(s *v1alpha1.LimiterSpec) { s.KubernetesThrottle = nil },
	} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t)
			h.reconciler.Options.OperatorNamespace = h.namespace
			h.must(h.kube.Create(t.Context(), &corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Namespace: h.namespace, Name: ThrottleSecret},
				StringData: map[string]string{certificateKey: "x", privateKeyKey: "x"},
			}))
			h.create("default", func(s *v1alpha1.LimiterSpec) {
				s.KubernetesThrottle = &v1alpha1.KubernetesThrottle{AdditionalExemptUsers: []v1alpha1.KubernetesUser{"eve"}}
			})
			h.reconcile("default")
			setConditions := func(all ...metav1.Condition) {
				t.Helper()
				l := h.limiter()
				l.Status.Conditions = append(slices.DeleteFunc(l.Status.Conditions, func(c metav1.Condition) bool {
					return c.Type == v1alpha1.ConditionThrottleRegistered
				}), all...)
				h.must(h.kube.Status().Update(t.Context(), l))
			}
			setConditions(metav1.Condition{
				Type: v1alpha1.ConditionThrottleRegistered, Status: yes, Reason: v1alpha1.ReasonRegistered, LastTransitionTime: metav1.Now(),
			})
			before := h.deployment("default")

			h.edit(end)
			h.reconcile("default")
			h.expectCondition(v1alpha1.ConditionProgrammed, no, v1alpha1.ReasonPending)
			h.expectCondition(v1alpha1.ConditionReconciling, yes, v1alpha1.ReasonPending)
			h.expectNoCondition(v1alpha1.ConditionStalled)
			if n := len(owned[corev1.Service](h, "default").Spec.Ports); n != 3 {
				t.Errorf("API servers still call the Limiter, but the Service has %d ports, want 3", n)
			}
			if n := len(owned[networkingv1.NetworkPolicy](h, "default").Spec.Ingress[0].Ports); n != 4 {
				t.Errorf("API servers still call the Limiter, but the NetworkPolicy allows %d ports, want 4", n)
			}
			if diff := cmp.Diff(before.Spec.Template, h.deployment("default").Spec.Template); diff != "" {
				t.Errorf("API servers still call the Limiter, but its pods are replaced:\n%s", diff)
			}

			setConditions()
			h.reconcile("default")
			h.expectCondition(v1alpha1.ConditionProgrammed, yes, v1alpha1.ReasonDeployed)
			args := strings.Join(h.deployment("default").Spec.Template.Spec.Containers[0].Args, " ")
			if n := len(owned[corev1.Service](h, "default").Spec.Ports); n != 2 || strings.Contains(args, "throttle") {
				t.Errorf("the webhook is removed, but there are %d ports and arguments %s", n, args)
			}
		})
	}
}

// The Secret of the operator also holds the keys of the CAs.
func TestThrottleVolume_MountsNoCAKey(t *testing.T) {
	volume := throttleVolume()
	var files []string
	for _, item := range volume.Secret.Items {
		files = append(files, path.Join(throttleDir, item.Path))
	}
	var read []string // files that the process reads
	for _, argument := range arguments(goldenLimiter(t, "throttle"), Secrets{}, testOptions, false) {
		if _, value, _ := strings.Cut(argument, "="); strings.HasPrefix(value, throttleDir) {
			read = append(read, value)
		}
	}
	if len(read) != 2 || !slices.Equal(files, read) {
		t.Errorf("of Secret %s pods mount %q and read %q, want the same two files", volume.Secret.SecretName, files, read)
	}
}

func TestThrottle_IsIgnoredOutsideTheOperatorNamespace(t *testing.T) {
	h := newHarness(t)
	h.create("default", func(s *v1alpha1.LimiterSpec) { s.KubernetesThrottle = &v1alpha1.KubernetesThrottle{} })
	h.reconcile("default")
	h.expectCondition(v1alpha1.ConditionProgrammed, yes, v1alpha1.ReasonDeployed)
	var d appsv1.Deployment
	h.must(h.kube.Get(t.Context(), types.NamespacedName{Namespace: h.namespace, Name: Name("default")}, &d))
	if args := strings.Join(d.Spec.Template.Spec.Containers[0].Args, " "); strings.Contains(args, "throttle") {
		t.Errorf("arguments %s", args)
	}
}

// The names pass through an argument, the kubelet and the flag.
func TestCSVList_IsReadBackByTheFlag(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.OneOf(rapid.StringMatching(`[a-z:]{1,9}`), rapid.StringMatching(`["',$(){}A-Z=\\ ]{1,9}`))
		names := rapid.SliceOfN(name, 1, 4).Draw(t, "names")
		text := strings.ReplaceAll(csvList(names), "$$", "$") // as the kubelet does
		flags := pflag.NewFlagSet("", pflag.ContinueOnError)
		got := flags.StringSlice("names", []string{"some"}, "")
		if err := flags.Parse([]string{"--names=" + text}); err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		if !slices.Equal(*got, names) {
			t.Errorf("%q becomes %q by %s", names, *got, text)
		}
	})
}
