package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"runtime/debug"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/client/config"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/cmd/internal/cli"
	"github.com/weir-dev/weir/controllers"
	"github.com/weir-dev/weir/controllers/deployment"
	"github.com/weir-dev/weir/controllers/gatewayapi"
	"github.com/weir-dev/weir/controllers/hashkey"
	"github.com/weir-dev/weir/controllers/leadership"
	"github.com/weir-dev/weir/controllers/registration"
	"github.com/weir-dev/weir/controllers/ruleset"
	"github.com/weir-dev/weir/controllers/ruleset/selection"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/limiter"
)

// operatorFlags are the flags of the operator.
type operatorFlags struct {
	namespace       string
	watchNamespaces []string
	monitorLabels   map[string]string
	image           string
	networkPolicies bool
	prefix          string
	metrics         operatorMetricsFlags
	health          string
	leaderElect     bool
	resync          time.Duration
	webhook         webhookFlags
	admin           operatorAdminFlags
}

// rootCommand returns the command weir-operator.
func rootCommand() *cobra.Command {
	var f operatorFlags
	cmd := &cobra.Command{
		Use:   "weir-operator",
		Short: "Reconcile the Limiters and policies of a cluster",
		Long: "Run the operator. It deploys each Limiter of the cluster, compiles the policies that the Limiter selects, and publishes\n" +
			"them in the Redis of the Limiter. The ConfigMap weir-rules-NAME in the namespace of the Limiter keeps a copy for\n" +
			"replicas that start while Redis is unavailable. The status of each policy reports which replicas enforce it.\n\n" +
			"Each flag can also be set with its environment variable. A flag on the command line takes precedence.",
		Args: cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return runOperator(cmd.Context(), f) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.namespace, "namespace", cmp.Or(os.Getenv("POD_NAMESPACE"), "weir-system"),
		"namespace of the operator, which holds its Lease and Secrets; POD_NAMESPACE sets the default")
	flags.StringSliceVar(&f.watchNamespaces, "watch-namespaces", nil,
		"namespaces in which Limiters can be; the operator needs permissions for Deployments, Secrets and the other objects of a\n"+
			"Limiter only there. Policies are read in all namespaces. Empty allows Limiters in all namespaces")
	flags.StringVar(&f.image, "limiter-image", "",
		"image of Limiters whose spec names no image; empty uses the image of the operator's pod, whose name is in POD_NAME")
	flags.BoolVar(&f.networkPolicies, "network-policies", false, "create a NetworkPolicy for each Limiter")
	flags.StringToStringVar(&f.monitorLabels, "pod-monitor-labels", nil,
		"additional labels of the PodMonitors of Limiters, by which Prometheus selects them: name=value,name=value")
	flags.StringVar(&f.prefix, "prefix", "weir:", cli.RedisPrefixHelp)
	f.metrics.add(flags)
	flags.StringVar(&f.health, "health-probe-bind-address", ":8081", "address to listen on for /healthz and /readyz; 0 disables it")
	flags.BoolVar(&f.leaderElect, "leader-elect", false, "reconcile only while elected as leader; required with more than one replica")
	flags.DurationVar(&f.resync, "resync", 5*time.Second, "interval between checks of Redis, which repair missing data, while nothing changes")
	f.webhook.add(flags)
	f.admin.add(flags)
	kubeconfig := flag.CommandLine.Lookup(config.KubeconfigFlagName)
	kubeconfig.Usage = "kubeconfig file; empty uses KUBECONFIG, the service account of the pod, or ~/.kube/config"
	flags.AddGoFlag(kubeconfig)
	return cli.Complete(cmd)
}

// leaderLease is the name of the Lease for leader election.
const leaderLease = "weir-operator"

// The client-side rate limit for calls to the API server, per second. Most calls write statuses, from one worker.
const (
	apiQPS   = 200
	apiBurst = 400
)

// gcPercent is the GOGC of the operator, below the default of 100: most of its policies are cached and rarely change, and one
// edit among thousands allocates as much memory again.
const gcPercent = 50

// runOperator runs the operator until ctx is done.
func runOperator(ctx context.Context, f operatorFlags) error {
	if os.Getenv("GOGC") == "" {
		defer debug.SetGCPercent(debug.SetGCPercent(gcPercent))
	}
	log := logr.FromSlogHandler(slog.Default().Handler())
	ctrl.SetLogger(log)
	klog.SetLogger(log)

	if err := cli.ValidatePrefix(f.prefix); err != nil {
		return cli.UsageError(err)
	}
	webhook, err := f.webhook.policyWebhook(f.namespace)
	if err != nil {
		return cli.UsageError(err)
	}
	if err := validateNamespaces(f.watchNamespaces); err != nil {
		return cli.UsageError(err)
	}
	if err := errors.Join(validateMonitorLabels(f.monitorLabels), f.admin.validate()); err != nil {
		return cli.UsageError(err)
	}
	kube, err := ctrl.GetConfig()
	if err != nil {
		return fmt.Errorf("find the Kubernetes API server: %w; outside a cluster, set --kubeconfig or KUBECONFIG", err)
	}
	kube.QPS, kube.Burst = apiQPS, apiBurst
	var limiters deployment.Options
	err = awaitAPIServer(ctx, f.health, func(ctx context.Context) (err error) {
		limiters, err = f.limiterOptions(ctx, kube)
		return err
	})
	if err != nil {
		return err
	}
	var leader *leadership.Leadership
	if f.leaderElect {
		if leader, err = leadership.New(kube, f.namespace, leaderLease); err != nil {
			return err
		}
	}
	mgr, err := operatorManager(ctx, f, kube, limiters, webhook, leader)
	if err != nil {
		return err
	}
	if limiters.HashKey, err = f.masterHashKey(ctx, mgr); err != nil {
		return err
	}
	if err := errors.Join(f.addControllers(mgr, limiters, leader), f.admin.addTo(ctx, mgr, limiters.HashKey)); err != nil {
		return err
	}
	if webhook != nil {
		if err := webhook.setup(mgr, compile.DefaultIdentity()); err != nil {
			return err
		}
	}
	for _, watch := range watchRestores(mgr.GetAPIReader(), f.leaderElect, f.namespace) {
		if err := mgr.Add(watch); err != nil {
			return fmt.Errorf("watch for a restored cluster: %w", err)
		}
	}
	return mgr.Start(ctx)
}

// validateNamespaces rejects invalid names: with one, the operator would watch nothing and report no error.
func validateNamespaces(names []string) error {
	for _, name := range names {
		if problems := validation.IsDNS1123Label(name); len(problems) > 0 {
			return fmt.Errorf("--watch-namespaces: %q is not the name of a namespace: %s", name, problems[0])
		}
	}
	return nil
}

// validateMonitorLabels returns an error if the API server would reject the labels.
func validateMonitorLabels(labels map[string]string) error {
	problems := metav1validation.ValidateLabels(labels, field.NewPath("--pod-monitor-labels"))
	if len(problems) > 0 {
		return problems[0]
	}
	return nil
}

// masterHashKey reads or creates the hash key of the installation.
func (f *operatorFlags) masterHashKey(ctx context.Context, mgr manager.Manager) (*limiter.HashKey, error) {
	uncached, err := client.New(mgr.GetConfig(), client.Options{Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(), HTTPClient: mgr.GetHTTPClient()})
	if err != nil {
		return nil, fmt.Errorf("connect to the Kubernetes API server: %w", err)
	}
	return hashkey.Master(ctx, uncached, f.namespace)
}

// addControllers adds the controllers to mgr.
func (f *operatorFlags) addControllers(mgr manager.Manager, limiters deployment.Options, leader *leadership.Leadership) error {
	leading := leader.Client(mgr.GetClient())
	gateways, err := addGateways(mgr)
	if err != nil {
		return err
	}
	informed := selection.WithInformers(leading, mgr.GetCache())
	ruleSets, err := ruleset.New(ruleset.Config{
		Client:    informed,
		Uncached:  mgr.GetAPIReader(),
		Gateways:  gateways,
		Open:      limiterStores{mgr.GetAPIReader(), f.prefix, f.namespace, leader.Confirm}.open,
		Confirm:   leader.Confirm,
		KeyPrefix: f.prefix,
		HashKey:   limiters.HashKey,
		Resync:    f.resync,
		Clock:     time.Now,
		Metrics:   metrics.Registry,
	})
	if err != nil {
		return err
	}
	deployments := deployment.New(deployment.Config{
		Client:   leading,
		Uncached: mgr.GetAPIReader(),
		Events:   mgr.GetEventRecorder("weir-operator"),
		Options:  limiters,
		Clock:    time.Now,
	})
	registrations := registration.New(registration.Config{
		Client:      informed,
		Uncached:    mgr.GetAPIReader(),
		Namespace:   f.namespace,
		SecretName:  deployment.ThrottleSecret,
		SetWebhooks: ruleSets.SetWebhooks,
		Events:      mgr.GetEventRecorder("weir-operator"),
		Clock:       time.Now,
	})
	return controllers.Setup(mgr, ruleSets, deployments, registrations)
}

// addGateways adds the watches of the Gateway API to mgr.
func addGateways(mgr manager.Manager) (*gatewayapi.Objects, error) {
	api, err := discovery.NewDiscoveryClientForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return nil, fmt.Errorf("connect to the Kubernetes API server: %w", err)
	}
	gateways := gatewayapi.New(api, mgr.GetCache(), mgr.GetAPIReader(), gatewayapi.Interval)
	if err := mgr.Add(gateways); err != nil {
		return nil, fmt.Errorf("watch the Gateway API: %w", err)
	}
	return gateways, nil
}

func operatorManager(
	ctx context.Context, f operatorFlags, kube *rest.Config, limiters deployment.Options, webhook *policyWebhook, leader *leadership.Leadership,
) (manager.Manager, error) {
	scheme := runtime.NewScheme()
	err := errors.Join(deployment.AddToScheme(scheme), registration.AddToScheme(scheme), gatewayapi.AddToScheme(scheme), eventsv1.AddToScheme(scheme))
	if err != nil {
		return nil, err
	}
	cached := limiters.Cached()
	maps.Copy(cached, registration.Cached())
	options := ctrl.Options{
		Scheme:                 scheme,
		Metrics:                f.metrics.options(),
		HealthProbeBindAddress: f.health,
		LeaderElection:         f.leaderElect,
		// Safe because the process ends when Start returns.
		LeaderElectionReleaseOnCancel: true,
		MapperProvider:                newMapper,
		Cache: cache.Options{
			ByObject:                    cached,
			DefaultTransform:            trim,
			ReaderFailOnMissingInformer: true,
		},
	}
	if webhook != nil {
		if err := webhook.prepare(&options); err != nil {
			return nil, err
		}
	}
	var lock *resourcelock.LeaseLock
	if leader != nil {
		lock = leader.Lock()
		options.LeaderElectionResourceLockInterface = lock
	}
	mgr, err := ctrl.NewManager(kube, options)
	if unknown, ok := errors.AsType[*meta.NoKindMatchError](err); ok {
		return nil, missingCRD(unknown)
	}
	if err != nil {
		return nil, fmt.Errorf("start the operator: %w", err)
	}
	if lock != nil {
		lock.LockConfig.EventRecorder = mgr.GetEventRecorderFor(leader.Identity()) //nolint:staticcheck // the election needs the older API of events
	}
	return mgr, addProbes(ctx, mgr)
}

// newMapper returns the default mapper after its first look-up. An error of that look-up would not name the kind whose CRD is missing.
func newMapper(kube *rest.Config, client *http.Client) (meta.RESTMapper, error) {
	mapper, err := apiutil.NewDynamicRESTMapper(kube, client)
	if err != nil {
		return nil, err
	}
	_, err = mapper.RESTMapping(corev1.SchemeGroupVersion.WithKind("Namespace").GroupKind(), corev1.SchemeGroupVersion.Version)
	return mapper, err
}

// trim removes metadata from cached objects that no controller reads and that is as large as the rest of the object.
func trim(object any) (any, error) {
	if o, ok := object.(metav1.Object); ok {
		o.SetManagedFields(nil)
		if a := o.GetAnnotations(); a[corev1.LastAppliedConfigAnnotation] != "" {
			delete(a, corev1.LastAppliedConfigAnnotation)
			o.SetAnnotations(a)
		}
	}
	gatewayapi.Trim(object)
	return object, nil
}

func missingCRD(unknown *meta.NoKindMatchError) error {
	return fmt.Errorf("watch policies: the CRD for %s is not installed; install the CRDs in config/crd first", unknown.GroupKind.Kind)
}

// addProbes makes the operator ready when its caches have all policies and Limiters, whether or not it is the leader.
func addProbes(ctx context.Context, mgr manager.Manager) error {
	var informers []cache.Informer
	namespaces := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}} // the policy webhook reads them
	for _, kind := range []client.Object{&v1alpha1.RateLimitPolicy{}, &v1alpha1.ClusterRateLimitPolicy{}, &v1alpha1.Limiter{}, namespaces} {
		policies, err := mgr.GetCache().GetInformer(ctx, kind)
		if unknown, ok := errors.AsType[*meta.NoKindMatchError](err); ok {
			return missingCRD(unknown)
		}
		if err != nil {
			return fmt.Errorf("watch policies: %w", err)
		}
		informers = append(informers, policies)
	}
	if err := mgr.AddHealthzCheck("process", healthz.Ping); err != nil {
		return fmt.Errorf("add /healthz: %w", err)
	}
	err := mgr.AddReadyzCheck("policies", func(*http.Request) error {
		for _, policies := range informers {
			if !policies.HasSynced() {
				return errors.New("policies have not been listed yet")
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("add /readyz: %w", err)
	}
	return nil
}
