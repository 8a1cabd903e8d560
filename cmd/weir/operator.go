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
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/config"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/controllers"
	"github.com/weir-dev/weir/controllers/deployment"
	"github.com/weir-dev/weir/controllers/registration"
	"github.com/weir-dev/weir/controllers/ruleset"
	"github.com/weir-dev/weir/controllers/ruleset/publish"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/limiter/redisstore"
)

// operatorFlags are what `weir operator` can be told.
type operatorFlags struct {
	namespace       string
	image           string
	networkPolicies bool
	prefix          string
	metrics         string
	health          string
	leaderElect     bool
	resync          time.Duration
	webhook         webhookFlags
}

func operatorCommand() *cobra.Command {
	var f operatorFlags
	cmd := &cobra.Command{
		Use:   "operator",
		Short: "Run the cluster's Limiters and bring policies to them",
		Long: "Runs what every Limiter of the cluster asks for, compiles the policies that each selects, publishes the result in its\n" +
			"Redis for the Limiter's replicas, keeps a copy in the ConfigMap weir-rules-NAME beside it, for replicas that start while\n" +
			"Redis is away, and writes into the status of each policy how far it is enforced.",
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return runOperator(cmd.Context(), f) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.namespace, "namespace", cmp.Or(os.Getenv("POD_NAMESPACE"), "weir-system"),
		"namespace in which the operator keeps what is its own; from POD_NAMESPACE where that is set")
	flags.StringVar(&f.image, "limiter-image", "",
		"image of the pods of a Limiter that names none (default: that of the operator's own pod, which POD_NAME names)")
	flags.BoolVar(&f.networkPolicies, "network-policies", false, "give every Limiter a NetworkPolicy")
	flags.StringVar(&f.prefix, "prefix", "weir:", "what every name in Redis begins with")
	flags.StringVar(&f.metrics, "metrics-bind-address", ":9090", "address of /metrics; 0 for none")
	flags.StringVar(&f.health, "health-probe-bind-address", ":8081", "address of /healthz and /readyz; 0 for none")
	flags.BoolVar(&f.leaderElect, "leader-elect", false, "work only while elected, so that several operators may run")
	flags.DurationVar(&f.resync, "resync", 5*time.Second, "how often Redis is checked and repaired when nothing happens")
	f.webhook.add(flags)
	flags.AddGoFlag(flag.CommandLine.Lookup(config.KubeconfigFlagName))
	return cmd
}

// leaderLease is the name of the Lease by which operators elect one.
const leaderLease = "weir-operator"

// The rate of calls to the API server, a second: most are statuses, and one worker at a time writes those.
const (
	callRate  = 200
	callBurst = 400
)

// collectAt is the percentage of live memory by which an operator may grow before it is collected: of its policies most are
// only held, and an edit among thousands makes as much again.
const collectAt = 50

// runOperator wires the operator up and runs it until ctx is done.
func runOperator(ctx context.Context, f operatorFlags) error {
	if os.Getenv("GOGC") == "" {
		defer debug.SetGCPercent(debug.SetGCPercent(collectAt))
	}
	log := logr.FromSlogHandler(slog.Default().Handler())
	ctrl.SetLogger(log)
	klog.SetLogger(log)

	judge, err := f.webhook.judge(f.namespace)
	if err != nil {
		return usageError(err)
	}
	kube, err := ctrl.GetConfig()
	if err != nil {
		return fmt.Errorf("find the Kubernetes API server: %w; outside a cluster, name a kubeconfig with --kubeconfig or KUBECONFIG", err)
	}
	kube.QPS, kube.Burst = callRate, callBurst
	limiters, err := f.limiterOptions(ctx, kube)
	if err != nil {
		return err
	}
	mgr, err := operatorManager(ctx, f, kube, limiters, judge)
	if err != nil {
		return err
	}
	if err := f.control(mgr, limiters); err != nil {
		return err
	}
	if judge != nil {
		if err := judge.setup(mgr, compile.DefaultIdentity()); err != nil {
			return err
		}
	}
	return mgr.Start(ctx)
}

// control adds the controllers to mgr.
func (f *operatorFlags) control(mgr manager.Manager, limiters deployment.Options) error {
	spend := redisstore.SpendScript()
	ruleSets, err := ruleset.New(ruleset.Config{
		Client:    mgr.GetClient(),
		Uncached:  mgr.GetAPIReader(),
		Open:      limiterStores{mgr.GetAPIReader(), f.prefix, f.namespace}.open,
		KeyPrefix: f.prefix,
		Decider:   publish.Script{Name: spend.Name, SHA: spend.SHA},
		Resync:    f.resync,
		Clock:     time.Now,
		Metrics:   metrics.Registry,
	})
	if err != nil {
		return err
	}
	deployments := deployment.New(deployment.Config{
		Client:   mgr.GetClient(),
		Uncached: mgr.GetAPIReader(),
		Cleaner:  ruleSets,
		Events:   mgr.GetEventRecorder("weir-operator"),
		Options:  limiters,
		Clock:    time.Now,
	})
	registrations := registration.New(registration.Config{
		Client:     mgr.GetClient(),
		Uncached:   mgr.GetAPIReader(),
		Namespace:  f.namespace,
		SecretName: deployment.ThrottleSecret,
		Events:     mgr.GetEventRecorder("weir-operator"),
		Clock:      time.Now,
	})
	return controllers.Setup(mgr, ruleSets, deployments, registrations)
}

func operatorManager(
	ctx context.Context, f operatorFlags, kube *rest.Config, limiters deployment.Options, judge *judge,
) (manager.Manager, error) {
	scheme := runtime.NewScheme()
	if err := errors.Join(deployment.AddToScheme(scheme), registration.AddToScheme(scheme)); err != nil {
		return nil, err
	}
	cached := limiters.Cached()
	maps.Copy(cached, registration.Cached())
	options := ctrl.Options{
		Scheme:                  scheme,
		Metrics:                 metricsserver.Options{BindAddress: f.metrics},
		HealthProbeBindAddress:  f.health,
		LeaderElection:          f.leaderElect,
		LeaderElectionID:        leaderLease,
		LeaderElectionNamespace: f.namespace,
		// Safe because the process ends when Start returns.
		LeaderElectionReleaseOnCancel: true,
		Cache: cache.Options{
			ByObject:                    cached,
			DefaultTransform:            trim,
			ReaderFailOnMissingInformer: true,
		},
	}
	if judge != nil {
		if err := judge.prepare(&options); err != nil {
			return nil, err
		}
	}
	mgr, err := ctrl.NewManager(kube, options)
	if err != nil {
		return nil, fmt.Errorf("start the operator: %w", err)
	}
	return mgr, addProbes(ctx, mgr)
}

// trim takes out of cached objects what nobody reads and is as large as the rest.
func trim(object any) (any, error) {
	if o, is := object.(metav1.Object); is {
		o.SetManagedFields(nil)
		if a := o.GetAnnotations(); a[corev1.LastAppliedConfigAnnotation] != "" {
			delete(a, corev1.LastAppliedConfigAnnotation)
			o.SetAnnotations(a)
		}
	}
	return object, nil
}

// addProbes makes the operator ready once it knows all policies and Limiters, elected or not.
func addProbes(ctx context.Context, mgr manager.Manager) error {
	var informers []cache.Informer
	for _, kind := range []client.Object{&v1alpha1.RateLimitPolicy{}, &v1alpha1.ClusterRateLimitPolicy{}, &v1alpha1.Limiter{}} {
		policies, err := mgr.GetCache().GetInformer(ctx, kind)
		if unknown, is := errors.AsType[*meta.NoKindMatchError](err); is {
			return fmt.Errorf("watch policies: the API server does not know %s; install config/crd first", unknown.GroupKind.Kind)
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
