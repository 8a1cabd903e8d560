package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
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
	"github.com/weir-dev/weir/controllers/ruleset"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/limiter/redisstore"
)

// operatorFlags are what `weir operator` can be told.
type operatorFlags struct {
	limiter      string
	redis        string
	redisTimeout time.Duration
	redisTLS     redisTLSFlags
	prefix       string
	metrics      string
	health       string
	leaderElect  bool
	resync       time.Duration
	webhook      webhookFlags
}

func operatorCommand() *cobra.Command {
	var f operatorFlags
	cmd := &cobra.Command{
		Use:   "operator",
		Short: "Bring the cluster's RateLimitPolicies to the limiters",
		Long: "Compiles every RateLimitPolicy of the cluster, publishes the result in Redis for the limiter's replicas, keeps a\n" +
			"copy in the ConfigMap weir-rules-NAME beside the limiter, for replicas that start while Redis is away, and writes\n" +
			"into the status of each policy how far it is enforced.",
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return runOperator(cmd.Context(), f) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.limiter, "limiter", "weir-system/default", "limiter to publish for, as namespace/name")
	flags.StringVar(&f.redis, "redis", "redis://127.0.0.1:6379", "Redis URL, redis:// or rediss:// (TLS); give one with a password in WEIR_REDIS")
	flags.DurationVar(&f.redisTimeout, "redis-timeout", time.Second, "time a Redis command may take")
	f.redisTLS.add(flags)
	flags.StringVar(&f.prefix, "prefix", "weir:", "what every name in Redis begins with")
	flags.StringVar(&f.metrics, "metrics-bind-address", ":9090", "address of /metrics; 0 for none")
	flags.StringVar(&f.health, "health-probe-bind-address", ":8081", "address of /healthz and /readyz; 0 for none")
	flags.BoolVar(&f.leaderElect, "leader-elect", false, "work only while elected, so that several operators may run")
	flags.DurationVar(&f.resync, "resync", 5*time.Second, "how often Redis is checked and repaired when nothing happens")
	f.webhook.add(flags)
	flags.AddGoFlag(flag.CommandLine.Lookup(config.KubeconfigFlagName))
	return cmd
}

// runOperator wires the operator up and runs it until ctx is done.
func runOperator(ctx context.Context, f operatorFlags) error {
	log := logr.FromSlogHandler(slog.Default().Handler())
	ctrl.SetLogger(log)
	klog.SetLogger(log)

	limiter, err := limiterName(f.limiter)
	if err != nil {
		return usageError(err)
	}
	judge, err := f.webhook.judge(limiter.Namespace)
	if err != nil {
		return usageError(err)
	}
	redis, err := openRedis(f.redis, f.redisTLS, f.redisTimeout)
	if err != nil {
		return usageError(err)
	}
	defer func() { _ = redis.Close() }() // the process ends anyway
	mgr, err := operatorManager(ctx, f, limiter, judge)
	if err != nil {
		return err
	}
	spend := redisstore.SpendScript()
	ruleSet, err := ruleset.New(ruleset.Config{
		Limiter:   limiter,
		Client:    mgr.GetClient(),
		Uncached:  mgr.GetAPIReader(),
		Store:     ruleSetStore{redis, redisstore.NewExchange(redis, f.prefix, f.limiter)},
		Identity:  compile.DefaultIdentity(),
		KeyPrefix: f.prefix,
		Decider:   ruleset.Script{Name: spend.Name, SHA: spend.SHA},
		Resync:    f.resync,
		Clock:     time.Now,
		Metrics:   metrics.Registry,
	})
	if err != nil {
		return err
	}
	if err := controllers.Setup(mgr, ruleSet); err != nil {
		return err
	}
	if judge != nil {
		if err := judge.setup(mgr, compile.DefaultIdentity()); err != nil {
			return err
		}
	}
	if err := mgr.Add(manager.RunnableFunc(newInspector(redis, metrics.Registry, slog.Default()).run)); err != nil {
		return fmt.Errorf("inspect Redis: %w", err)
	}
	return mgr.Start(ctx)
}

func operatorManager(ctx context.Context, f operatorFlags, limiter types.NamespacedName, judge *judge) (manager.Manager, error) {
	scheme := runtime.NewScheme()
	if err := errors.Join(v1alpha1.AddToScheme(scheme), corev1.AddToScheme(scheme)); err != nil {
		return nil, fmt.Errorf("register the APIs of policies and of ConfigMaps: %w", err)
	}
	kube, err := ctrl.GetConfig()
	if err != nil {
		return nil, fmt.Errorf("find the Kubernetes API server: %w; outside a cluster, name a kubeconfig with --kubeconfig or KUBECONFIG", err)
	}
	options := ctrl.Options{
		Scheme:                  scheme,
		Metrics:                 metricsserver.Options{BindAddress: f.metrics},
		HealthProbeBindAddress:  f.health,
		LeaderElection:          f.leaderElect,
		LeaderElectionID:        "weir-operator-" + limiter.Name,
		LeaderElectionNamespace: limiter.Namespace,
		// Safe because the process ends when Start returns.
		LeaderElectionReleaseOnCancel: true,
		Cache: cache.Options{
			DefaultTransform:            cache.TransformStripManagedFields(),
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

// addProbes makes the operator ready once it knows all policies, elected or not.
func addProbes(ctx context.Context, mgr manager.Manager) error {
	var informers []cache.Informer
	for _, kind := range []client.Object{&v1alpha1.RateLimitPolicy{}, &v1alpha1.ClusterRateLimitPolicy{}} {
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

// limiterName reads "namespace/name".
func limiterName(text string) (types.NamespacedName, error) {
	namespace, name, ok := strings.Cut(text, "/")
	if !ok || namespace == "" || name == "" || strings.Contains(name, "/") {
		return types.NamespacedName{}, fmt.Errorf("limiter %q is not of the form namespace/name", text)
	}
	return types.NamespacedName{Namespace: namespace, Name: name}, nil
}

// ruleSetStore fills the controller's interface with Redis.
type ruleSetStore struct {
	client *redisstore.Client
	*redisstore.Exchange
}

func (s ruleSetStore) LoadScripts(ctx context.Context) error {
	_, err := s.client.LoadScripts(ctx)
	return err
}

func (s ruleSetStore) Replicas(ctx context.Context) ([]ruleset.Replica, error) {
	live, err := s.Exchange.Replicas(ctx)
	replicas := make([]ruleset.Replica, len(live))
	for i, r := range live {
		replicas[i] = ruleset.Replica{ID: r.ID, Revision: r.Revision, Mode: r.Mode, Since: r.Since}
	}
	return replicas, err
}
