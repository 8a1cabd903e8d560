// Command measure measures, with many policies, how long an edit of a policy takes until every replica enforces it, and the CPU and memory
// of the operator. It starts kube-apiserver, Redis, one operator and limiters. The operator runs without leader election: a leader would
// also renew its Lease every two seconds.
//
//	go run ./hack/measure -policies 10000 -namespaces 100 -replicas 3 -edits 100 -idle 2m
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/hack/command"
	"github.com/weir-dev/weir/test/fixture"
	"github.com/weir-dev/weir/test/fixture/kubetest"
)

const (
	initialLimit      = 1000 // limit of every policy; edit n sets initialLimit + n
	concurrentCreates = 8
	statusInterval    = 100 * time.Millisecond // between two checks of all statuses
	requestInterval   = time.Millisecond       // between two requests to a replica: the resolution of the measurement
)

// settings are the flags.
type settings struct {
	policies, namespaces, replicas, edits int
	idle                                  time.Duration
	operator, limiter                     string // programs; empty builds them
}

func main() {
	var s settings
	// Not flag.CommandLine, on which controller-runtime defines the flag -kubeconfig.
	flags := flag.NewFlagSet("measure", flag.ExitOnError)
	flags.IntVar(&s.policies, "policies", 1000, "number of policies, in addition to one that does not compile")
	flags.IntVar(&s.namespaces, "namespaces", 10, "number of namespaces of the policies")
	flags.IntVar(&s.replicas, "replicas", 2, "number of limiter processes")
	flags.IntVar(&s.edits, "edits", 100, "number of edits to measure")
	flags.StringVar(&s.operator, "operator", "", "program of the operator, for example of another version; empty builds it")
	flags.StringVar(&s.limiter, "limiter", "", "program of the limiters, for example of another version; empty builds it")
	flags.DurationVar(&s.idle, "idle", 30*time.Second, "how long to measure the idle operator")
	_ = flags.Parse(os.Args[1:]) // ExitOnError: it does not return an error
	command.Main("measure", func(ctx context.Context) error { return run(ctx, s) })
}

func run(ctx context.Context, s settings) (err error) {
	ctrl.SetLogger(logr.Discard()) // envtest logs an error without a logger
	if min(s.policies, s.namespaces, s.replicas, s.edits) < 1 {
		return errors.New("-policies, -namespaces, -replicas and -edits must be positive")
	}
	e, err := newEnvironment(ctx, s)
	defer func() { err = errors.Join(err, e.stop()) }()
	if err != nil {
		return err
	}
	began := time.Now()
	if err := e.create(ctx); err != nil {
		return err
	}
	if err := e.waitEnforced(ctx, s.policies-1, initialLimit); err != nil {
		return err
	}
	fmt.Printf("%d policies in %d namespaces created and enforced in %.1f s\n", s.policies, s.namespaces, time.Since(began).Seconds())
	if err := e.waitReady(ctx); err != nil {
		return err
	}
	fmt.Printf("all policies Ready after %.1f s; the invalid policy is Stalled\n", time.Since(began).Seconds())
	if err := e.measureStart(ctx); err != nil {
		return err
	}
	if err := e.timeEdits(ctx); err != nil {
		return err
	}
	if err := e.measureCost(ctx); err != nil {
		return err
	}
	return e.measureIdle(ctx)
}

func (e *environment) timeEdits(ctx context.Context) error {
	var took []time.Duration
	for n := range e.edits {
		which, limit := n*7%e.policies, int64(initialLimit+n+1)
		if err := e.edit(ctx, which, limit); err != nil {
			return err
		}
		accepted := time.Now()
		if err := e.waitEnforced(ctx, which, limit); err != nil {
			return err
		}
		took = append(took, time.Since(accepted))
	}
	slices.Sort(took)
	at := func(q float64) time.Duration {
		return took[min(len(took)-1, int(q*float64(len(took))))].Round(100 * time.Microsecond)
	}
	fmt.Printf("edit accepted by the API server → enforced on %d replicas, %d edits among %d policies, %d CPUs:\n",
		len(e.stack.Replicas), e.edits, e.policies, runtime.NumCPU())
	fmt.Printf("  median %v, p90 %v, p99 %v, max %v\n", at(0.5), at(0.9), at(0.99), at(1))
	return nil
}

type environment struct {
	settings

	dir     string
	kube    *kubetest.KubeProcess
	redis   *fixture.RedisProcess
	options kubetest.StackOptions
	stack   *kubetest.Stack
	client  client.Client
}

// newEnvironment returns the started servers even if it fails, so that the caller can stop them.
func newEnvironment(ctx context.Context, s settings) (e *environment, err error) {
	e = &environment{settings: s}
	if e.dir, err = os.MkdirTemp("", "weir-measure-"); err != nil {
		return e, err
	}
	weir, operator := s.limiter, s.operator
	if weir == "" {
		if weir, err = fixture.BuildWeir(ctx, e.dir); err != nil {
			return e, err
		}
	}
	if operator == "" {
		if operator, err = fixture.BuildOperator(ctx, e.dir); err != nil {
			return e, err
		}
	}
	root, err := fixture.ModuleRoot()
	if err != nil {
		return e, err
	}
	crds := []string{filepath.Join(root, "config", "crd", "bases")}
	if e.kube, err = kubetest.StartKube(ctx, kubetest.KubeOptions{CRDs: crds, Progress: os.Stderr}); err != nil {
		return e, err
	}
	if e.redis, err = fixture.StartRedis(ctx); err != nil {
		return e, err
	}
	scheme := k8sruntime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return e, err
	}
	config := e.kube.Config()
	config.QPS = -1 // no client-side rate limit
	if e.client, err = client.New(config, client.Options{Scheme: scheme}); err != nil {
		return e, err
	}
	e.options = kubetest.StackOptions{Weir: weir, Operator: operator, Kube: e.kube, RedisURL: e.redis.URL(), Limiters: s.replicas}
	if e.stack, err = kubetest.StartStack(ctx, e.options); err != nil {
		return e, err
	}
	return e, e.raiseBudget(ctx)
}

// raiseBudget lets the Limiter enforce all policies: 50 000 are more than the default budget.
func (e *environment) raiseBudget(ctx context.Context) error {
	limits := v1alpha1.BudgetLimits{Rules: new(int64(2 * e.policies)), Bytes: new(int64(2048 * e.policies))}
	limiter := &v1alpha1.Limiter{ObjectMeta: metav1.ObjectMeta{Namespace: "weir-system", Name: "default"}}
	before := limiter.DeepCopy()
	limiter.Spec.PolicyBudget = v1alpha1.PolicyBudget{Total: limits, PerNamespace: limits}
	return e.client.Patch(ctx, limiter, client.MergeFrom(before))
}

// timeout returns how long to wait for the policies: an API server here writes 200 a second.
func (e *environment) timeout() time.Duration {
	return 5*time.Minute + time.Duration(e.policies)*10*time.Millisecond
}

func (e *environment) stop() error {
	var errs []error
	if e.stack != nil {
		errs = append(errs, e.stack.Stop())
	}
	if e.redis != nil {
		errs = append(errs, e.redis.Stop())
	}
	if e.kube != nil {
		errs = append(errs, e.kube.Stop())
	}
	return errors.Join(append(errs, os.RemoveAll(e.dir))...)
}

func name(i int) string { return fmt.Sprintf("policy-%05d", i) }

// namespace returns the namespace of policy i.
func (e *environment) namespace(i int) string { return fmt.Sprintf("measure-%03d", i%e.namespaces) }

// tenant returns the header value that policy i matches.
func tenant(i int) string { return fmt.Sprintf("tenant-%05d", i) }

func (e *environment) create(ctx context.Context) error {
	for i := range e.namespaces {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: e.namespace(i)}}
		if err := e.client.Create(ctx, ns); err != nil {
			return err
		}
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(concurrentCreates)
	for i := range e.policies {
		group.Go(func() error {
			value := tenant(i)
			return e.client.Create(ctx, e.policy(i, name(i), &v1alpha1.HTTPMatch{
				Headers: []v1alpha1.HeaderMatch{{Name: "x-tenant-id", Value: &value}},
			}))
		})
	}
	group.Go(func() error { // the schema accepts the expression, RE2 does not
		return e.client.Create(ctx, e.policy(0, invalidPolicy, &v1alpha1.HTTPMatch{
			Paths: []v1alpha1.PathMatch{{Type: v1alpha1.PathRegularExpression, Value: "/v1/(?=x)"}},
		}))
	})
	return group.Wait()
}

const invalidPolicy = "does-not-compile"

func (e *environment) policy(i int, name string, match *v1alpha1.HTTPMatch) *v1alpha1.RateLimitPolicy {
	return &v1alpha1.RateLimitPolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: e.namespace(i), Name: name},
		Spec: v1alpha1.RateLimitPolicySpec{
			Axis: v1alpha1.AxisTenant, Limit: new(int64(initialLimit)), Window: "1h", Match: &v1alpha1.Match{HTTP: match},
		},
	}
}

// waitReady waits until every policy is Ready, and the invalid policy is Stalled.
func (e *environment) waitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, e.timeout())
	defer cancel()
	err := fixture.Poll(ctx, statusInterval, func(ctx context.Context) error {
		var list v1alpha1.RateLimitPolicyList
		if err := e.client.List(ctx, &list); err != nil {
			return fixture.Permanent(err)
		}
		for i := range list.Items {
			p, want := &list.Items[i], v1alpha1.ConditionReady
			if p.Name == invalidPolicy {
				want = v1alpha1.ConditionStalled
			}
			if !meta.IsStatusConditionTrue(p.Status.Conditions, want) {
				return fmt.Errorf("policy %s/%s is not %s", p.Namespace, p.Name, want)
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("wait until all policies are Ready: %w", err)
	}
	return nil
}

func (e *environment) edit(ctx context.Context, i int, limit int64) error {
	policy := &v1alpha1.RateLimitPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: e.namespace(i), Name: name(i)}}
	patch := fmt.Appendf(nil, `{"spec":{"limit":%d}}`, limit)
	return e.client.Patch(ctx, policy, client.RawPatch("application/merge-patch+json", patch))
}

// waitEnforced waits until every replica decides policy i with limit. It sends requests with peek to all replicas concurrently.
func (e *environment) waitEnforced(ctx context.Context, i int, limit int64) error {
	ctx, cancel := context.WithTimeout(ctx, e.timeout())
	defer cancel()
	peek := fixture.CheckRequest{Domain: e.namespace(i), Path: "/", Headers: map[string]string{"x-tenant-id": tenant(i)}, Peek: true}
	group, ctx := errgroup.WithContext(ctx)
	for _, replica := range e.stack.Replicas {
		group.Go(func() error {
			err := fixture.Poll(ctx, requestInterval, func(ctx context.Context) error {
				answer, err := fixture.Check(ctx, replica.URL, peek)
				if err != nil {
					return fixture.Permanent(err)
				}
				if got := answer.LimitOf(e.namespace(i) + "/" + name(i)); got != limit {
					return fmt.Errorf("the limit is %d", got)
				}
				return nil
			})
			if err != nil {
				return fmt.Errorf("wait until %s enforces %d of %s: %w", replica.URL, limit, name(i), err)
			}
			return nil
		})
	}
	return group.Wait()
}
