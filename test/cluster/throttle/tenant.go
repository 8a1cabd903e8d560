package throttle

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/test/cluster/scenario"
)

// The namespaces of this step. Each is a tenant.
const (
	tenantA, tenantB = "tenant-a", "tenant-b"
	unlimited        = "tenant-unlimited" // no policy matches it
	probeNamespace   = "tenant-probe"     // every write is denied
)

// deployer is the service account of a tenant.
const deployer = "deployer"

// tenants are the clients that write to the Kubernetes API, and the policies that apply to them.
type tenants struct {
	*scenario.Scenario

	a, b, unlimited, probe *tenant
	policies               []*v1alpha1.ClusterRateLimitPolicy
	dir                    string // with the kubeconfig files
	rounds                 int
}

// tenant is a namespace with the credentials of its deployer.
type tenant struct {
	namespace, kubeconfig string

	sets kubernetes.Interface
}

// start creates the namespaces. The caller must call end, even after an error.
func (w *tenants) start(ctx context.Context) (err error) {
	if w.dir, err = os.MkdirTemp("", "e2e-tenants-"); err != nil {
		return err
	}
	for name, t := range map[string]**tenant{tenantA: &w.a, tenantB: &w.b, unlimited: &w.unlimited, probeNamespace: &w.probe} {
		if *t, err = w.startTenant(ctx, name, filepath.Join(w.dir, name)); err != nil {
			return fmt.Errorf("tenant %s: %w", name, err)
		}
	}
	return nil
}

// end deletes the objects of this step, also after an interrupt. It always deletes the tokens.
func (w *tenants) end(ctx context.Context) error {
	if err := os.RemoveAll(w.dir); err != nil || w.Options.Keep {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), scenario.CleanupTime)
	defer cancel()
	return errors.Join(w.deletePolicies(ctx),
		w.Run(ctx, "kubectl", "delete", "namespace", tenantA, tenantB, unlimited, probeNamespace, "--ignore-not-found", "--timeout=120s"))
}

func (w *tenants) startTenant(ctx context.Context, name, kubeconfig string) (*tenant, error) {
	at := metav1.ObjectMeta{Namespace: name, Name: deployer}
	account := &corev1.ServiceAccount{ObjectMeta: at}
	err := w.CreateAll(ctx, scenario.Namespace(name), account,
		&rbacv1.Role{ObjectMeta: at, Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{"", "apps", "batch"}, Resources: []string{"configmaps", "pods", "deployments", "jobs"}, Verbs: []string{"*"},
		}}},
		&rbacv1.RoleBinding{
			ObjectMeta: at, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: deployer},
			Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: name, Name: deployer}},
		})
	if err != nil {
		return nil, err
	}
	token, err := w.Sets.CoreV1().ServiceAccounts(name).CreateToken(ctx, deployer, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		return nil, err
	}
	config, err := scenario.WriteKubeconfig(kubeconfig, name, token.Status.Token)
	if err != nil {
		return nil, err
	}
	sets, err := kubernetes.NewForConfig(config)
	return &tenant{namespace: name, kubeconfig: kubeconfig, sets: sets}, err
}

// create sends one request without retries and returns the warnings.
func (t *tenant) create(ctx context.Context, o client.Object, dryRun ...string) ([]string, error) {
	var rest rest.Interface
	var resource string
	switch o.(type) {
	case *corev1.ConfigMap:
		rest, resource = t.sets.CoreV1().RESTClient(), "configmaps"
	case *corev1.Pod:
		rest, resource = t.sets.CoreV1().RESTClient(), "pods"
	case *appsv1.Deployment:
		rest, resource = t.sets.AppsV1().RESTClient(), "deployments"
	case *batchv1.Job:
		rest, resource = t.sets.BatchV1().RESTClient(), "jobs"
	default:
		return nil, fmt.Errorf("create %T: unknown type", o)
	}
	request := rest.Post().Namespace(t.namespace).Resource(resource).Body(o).MaxRetries(0)
	for _, what := range dryRun {
		request.Param("dryRun", what)
	}
	result := request.Do(ctx)
	var warnings []string
	for _, w := range result.Warnings() {
		warnings = append(warnings, w.Text)
	}
	return warnings, result.Error()
}

func (t *tenant) createConfigMap(ctx context.Context, dryRun ...string) ([]string, error) {
	return t.create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "made-"}}, dryRun...)
}

// webhookIsCalled checks that the API server calls the webhook with the newest policies.
func (w *tenants) webhookIsCalled(ctx context.Context) error {
	p := w.policies[0]
	var o client.Object = &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "probe"}}
	if p.Spec.Match.Kubernetes.Resources[0].Resources[0] == "pods" {
		o = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "probe"}, Spec: w.sleeps()}
	}
	_, err := w.probe.create(ctx, o, metav1.DryRunAll)
	switch {
	case err == nil:
		return errors.New("the API server does not call the webhook yet")
	case apierrors.IsTooManyRequests(err) && strings.Contains(err.Error(), p.Name+"-probe"):
		return nil
	default:
		return err
	}
}
