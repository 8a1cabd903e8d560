package gatewayapi

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/compile/gateway"
	"github.com/weir-dev/weir/test/fixture/kubetest"
)

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard()) // controller-runtime warns if no logger is set
	kubetest.Main(m)
}

// started returns Objects that run until the test ends, and a client. Both have the permissions of config.
func started(t *testing.T, config *rest.Config) (*Objects, client.Client) {
	t.Helper()
	scheme := runtime.NewScheme()
	must(t, AddToScheme(scheme))
	must(t, rbacv1.AddToScheme(scheme))
	c, err := client.New(config, client.Options{Scheme: scheme})
	must(t, err)
	kinds, err := cache.New(config, cache.Options{Scheme: scheme, ReaderFailOnMissingInformer: true})
	must(t, err)
	api, err := discovery.NewDiscoveryClientForConfig(config)
	must(t, err)
	o := New(api, kinds, c, 20*time.Millisecond)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 2)
	go func() { ended <- kinds.Start(ctx) }()
	go func() { ended <- o.Start(ctx) }()
	t.Cleanup(func() {
		stop()
		must(t, errors.Join(<-ended, <-ended))
	})
	return o, c
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestObjects_FollowTheCRDsOfTheCluster(t *testing.T) {
	kube := kubetest.Kube(t)
	namespace := kubetest.Namespace(t, kube)
	o, c := started(t, kube.Config())
	changed := o.Changed()
	// The objects after a notification, which the test requires: nothing else makes the operator read them.
	await := func(what string, is func(*gateway.Objects, uint64) bool) (hash uint64) {
		t.Helper()
		deadline := time.After(30 * time.Second)
		for {
			g, hash, err := o.Read(t.Context())
			if err == nil && is(g, hash) {
				return hash
			}
			select {
			case <-changed:
			case <-deadline:
				t.Fatalf("not read: %s; the last read returned %+v, %v", what, g, err)
			}
		}
	}
	all := []v1alpha1.TargetKind{v1alpha1.TargetHTTPRoute, v1alpha1.TargetGRPCRoute, v1alpha1.TargetGateway}
	without := await("no Gateway API", func(g *gateway.Objects, _ uint64) bool { return cmp.Equal(g.Missing, all) })
	if again := await("the same", func(*gateway.Objects, uint64) bool { return true }); again != without || without == 0 {
		t.Errorf("hashes %d and %d", without, again)
	}

	must(t, kube.InstallGatewayAPI(t.Context()))
	t.Cleanup(func() { must(t, kube.UninstallGatewayAPI(context.Background())) })
	installed := await("the CRDs are installed", func(g *gateway.Objects, _ uint64) bool { return g.Missing == nil })
	if installed == without {
		t.Error("the hash did not change when the CRDs were installed")
	}
	route := &gatewayv1.HTTPRoute{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "checkout"}}
	route.Spec.ParentRefs = []gatewayv1.ParentReference{{Name: "public"}}
	must(t, c.Create(t.Context(), route))
	created := await("a route", func(g *gateway.Objects, _ uint64) bool { return len(g.Routes) == 1 && g.Routes[0].Name == "checkout" })
	if created == installed {
		t.Error("the hash did not change when a route was created")
	}
	route.Status.Parents = []gatewayv1.RouteParentStatus{{
		ParentRef: gatewayv1.ParentReference{Name: "public"}, ControllerName: "example.com/gateway",
		Conditions: []metav1.Condition{{Type: "Accepted", Status: "True", Reason: "Accepted", LastTransitionTime: metav1.Now()}},
	}}
	must(t, c.Status().Update(t.Context(), route))
	await("the route is accepted", func(g *gateway.Objects, _ uint64) bool { return len(g.Routes) == 1 && len(g.Routes[0].Parents) == 1 })
	must(t, c.Delete(t.Context(), route))
	await("the route is gone", func(g *gateway.Objects, _ uint64) bool { return len(g.Routes) == 0 })

	must(t, kube.UninstallGatewayAPI(t.Context()))
	await("the CRDs are gone", func(g *gateway.Objects, _ uint64) bool { return cmp.Equal(g.Missing, all) })
	must(t, kube.InstallGatewayAPI(t.Context()))
	await("the CRDs are installed again", func(g *gateway.Objects, _ uint64) bool { return g.Missing == nil })
	must(t, c.Create(t.Context(), &gatewayv1.HTTPRoute{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "again"}}))
	await("another route", func(g *gateway.Objects, _ uint64) bool { return len(g.Routes) == 1 && g.Routes[0].Name == "again" })
}

// The ClusterRole of the operator can be older than its image.
func TestObjects_NameAMissingPermission(t *testing.T) {
	kube := kubetest.Kube(t)
	must(t, kube.InstallGatewayAPI(t.Context()))
	t.Cleanup(func() { must(t, kube.UninstallGatewayAPI(context.Background())) })
	_, admin := started(t, kube.Config())
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "older"}, Rules: []rbacv1.PolicyRule{{
		APIGroups: []string{v1alpha1.GatewayGroup}, Resources: []string{"httproutes", "grpcroutes", "listenersets", "referencegrants"}, Verbs: []string{"list", "watch"},
	}}}
	must(t, admin.Create(t.Context(), role))
	must(t, admin.Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "older"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "older"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: "older"}},
	}))
	user, err := kube.UserConfig("older")
	must(t, err)
	o, _ := started(t, user)
	changed := o.Changed()
	await := func(what string, is func(error) bool) {
		t.Helper()
		deadline := time.After(time.Minute)
		for {
			_, _, err := o.Read(t.Context())
			if is(err) {
				return
			}
			select {
			case <-changed:
			case <-deadline:
				t.Fatalf("%s: the last read returned %v", what, err)
			}
		}
	}
	await("the permission is missing", func(err error) bool {
		return err != nil && !errors.Is(err, gateway.ErrGatewaysPending) && strings.Contains(err.Error(), `list gateways: `) &&
			strings.Contains(err.Error(), `cannot list resource "gateways" in API group "gateway.networking.k8s.io"`) &&
			!strings.Contains(err.Error(), "httproutes")
	})
	role.Rules[0].Resources = append(role.Rules[0].Resources, "gateways")
	must(t, admin.Update(t.Context(), role))
	await("the permission is granted", func(err error) bool { return err == nil })
}

// A restarted operator must not publish rules without the routes that it has not read yet.
func TestObjects_ReadNothingBeforeAllKindsAreKnown(t *testing.T) {
	o := New(unavailable{}, nil, nil, time.Hour)
	if err := o.discover(t.Context()); !errors.Is(err, errDown) {
		t.Fatalf("discover: %v", err)
	}
	if g, _, err := o.Read(t.Context()); !errors.Is(err, gateway.ErrGatewaysPending) {
		t.Errorf("read %+v, %v", g, err)
	}
}

var errDown = errors.New("down")

type unavailable struct{}

func (unavailable) ServerResourcesForGroupVersionWithContext(context.Context, string) (*metav1.APIResourceList, error) {
	return nil, errDown
}
