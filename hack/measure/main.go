// Command measure tells how long an edit of a policy takes until every replica enforces it, among many policies, and what the
// operator needs with so many, on real parts: kube-apiserver, Redis, the operator and limiter processes. The operator is by
// itself: one that is elected among several also renews its Lease, every two seconds.
//
//	go run ./hack/measure -policies 10000 -namespaces 100 -replicas 3 -edits 100 -rest 2m
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"
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
	"github.com/weir-dev/weir/test/fixture"
)

const (
	base     = 1000 // limit of every policy; edit n makes it base + n
	patience = 5 * time.Minute
	creators = 8
	pause    = 100 * time.Millisecond // between two looks at all policies
	beat     = time.Millisecond       // between two questions to a replica: the finest that is measured
)

// size is what is measured.
type size struct {
	policies, namespaces, replicas, edits int
	rest                                  time.Duration
}

func main() {
	var s size
	flag.IntVar(&s.policies, "policies", 1000, "policies present, beside one that does not compile")
	flag.IntVar(&s.namespaces, "namespaces", 10, "namespaces that they are in")
	flag.IntVar(&s.replicas, "replicas", 2, "limiter processes")
	flag.IntVar(&s.edits, "edits", 100, "edits to time")
	flag.DurationVar(&s.rest, "rest", 30*time.Second, "how long to watch the operator while nothing happens")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, s)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "measure:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, s size) (err error) {
	ctrl.SetLogger(logr.Discard()) // what starts the API server complains without one
	if min(s.policies, s.namespaces, s.replicas, s.edits) < 1 {
		return errors.New("-policies, -namespaces, -replicas and -edits take positive numbers")
	}
	w, err := newWorld(ctx, s)
	defer func() { err = errors.Join(err, w.stop()) }()
	if err != nil {
		return err
	}
	began := time.Now()
	if err := w.create(ctx); err != nil {
		return err
	}
	if err := w.untilEnforced(ctx, s.policies-1, base); err != nil {
		return err
	}
	fmt.Printf("%d policies in %d namespaces created and enforced in %.1f s\n", s.policies, s.namespaces, time.Since(began).Seconds())
	if err := w.untilReady(ctx); err != nil {
		return err
	}
	fmt.Printf("all of them Ready after %.1f s, and one that does not compile is not\n", time.Since(began).Seconds())
	if err := w.showStart(ctx); err != nil {
		return err
	}
	if err := w.timeEdits(ctx); err != nil {
		return err
	}
	return w.showRest(ctx)
}

func (w *world) timeEdits(ctx context.Context) error {
	var took []time.Duration
	for n := range w.edits {
		which, limit := n*7%w.policies, int64(base+n+1)
		if err := w.edit(ctx, which, limit); err != nil {
			return err
		}
		accepted := time.Now()
		if err := w.untilEnforced(ctx, which, limit); err != nil {
			return err
		}
		took = append(took, time.Since(accepted))
	}
	slices.Sort(took)
	at := func(q float64) time.Duration {
		return took[min(len(took)-1, int(q*float64(len(took))))].Round(100 * time.Microsecond)
	}
	fmt.Printf("edit accepted by the API server → enforced on %d replicas, %d edits among %d policies, %d CPUs:\n",
		len(w.stack.Replicas), w.edits, w.policies, runtime.NumCPU())
	fmt.Printf("  median %v, p90 %v, p99 %v, max %v\n", at(0.5), at(0.9), at(0.99), at(1))
	return nil
}

type world struct {
	size

	dir    string
	kube   *fixture.KubeProcess
	redis  *fixture.RedisProcess
	how    fixture.StackOptions
	stack  *fixture.Stack
	client client.Client
}

// newWorld returns what it started even when it fails.
func newWorld(ctx context.Context, s size) (w *world, err error) {
	w = &world{size: s}
	if w.dir, err = os.MkdirTemp("", "weir-measure-"); err != nil {
		return w, err
	}
	weir, err := fixture.BuildWeir(ctx, w.dir)
	if err != nil {
		return w, err
	}
	root, err := fixture.ModuleRoot()
	if err != nil {
		return w, err
	}
	crds := []string{filepath.Join(root, "config", "crd", "bases")}
	if w.kube, err = fixture.StartKube(ctx, fixture.KubeOptions{CRDs: crds, Progress: os.Stderr}); err != nil {
		return w, err
	}
	if w.redis, err = fixture.StartRedis(ctx); err != nil {
		return w, err
	}
	scheme := k8sruntime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return w, err
	}
	config := w.kube.Config()
	config.QPS = -1 // the server's own limits are enough
	if w.client, err = client.New(config, client.Options{Scheme: scheme}); err != nil {
		return w, err
	}
	w.how = fixture.StackOptions{Weir: weir, Kube: w.kube, RedisURL: w.redis.URL(), Limiters: s.replicas}
	w.stack, err = fixture.StartStack(ctx, w.how)
	return w, err
}

func (w *world) stop() error {
	var errs []error
	if w.stack != nil {
		errs = append(errs, w.stack.Stop())
	}
	if w.redis != nil {
		errs = append(errs, w.redis.Stop())
	}
	if w.kube != nil {
		errs = append(errs, w.kube.Stop())
	}
	return errors.Join(append(errs, os.RemoveAll(w.dir))...)
}

func name(i int) string { return fmt.Sprintf("policy-%05d", i) }

// namespace is where policy i is.
func (w *world) namespace(i int) string { return fmt.Sprintf("measure-%03d", i%w.namespaces) }

// tenant is the header value that policy i matches.
func tenant(i int) string { return fmt.Sprintf("tenant-%05d", i) }

func (w *world) create(ctx context.Context) error {
	for i := range w.namespaces {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.namespace(i)}}
		if err := w.client.Create(ctx, ns); err != nil {
			return err
		}
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(creators)
	for i := range w.policies {
		group.Go(func() error {
			value := tenant(i)
			return w.client.Create(ctx, w.policy(i, name(i), &v1alpha1.HTTPMatch{
				Headers: []v1alpha1.HeaderMatch{{Name: "x-tenant-id", Value: &value}},
			}))
		})
	}
	group.Go(func() error { // which the schema takes and RE2 does not
		return w.client.Create(ctx, w.policy(0, badName, &v1alpha1.HTTPMatch{
			Paths: []v1alpha1.PathMatch{{Type: v1alpha1.PathRegularExpression, Value: "/v1/(?=x)"}},
		}))
	})
	return group.Wait()
}

const badName = "does-not-compile"

func (w *world) policy(i int, name string, match *v1alpha1.HTTPMatch) *v1alpha1.RateLimitPolicy {
	return &v1alpha1.RateLimitPolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace(i), Name: name},
		Spec: v1alpha1.RateLimitPolicySpec{
			Axis: v1alpha1.AxisTenant, Limit: base, Window: "1h", Match: &v1alpha1.Match{HTTP: match},
		},
	}
}

// untilReady waits until every policy's status says so.
func (w *world) untilReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		var list v1alpha1.RateLimitPolicyList
		if err := w.client.List(ctx, &list); err != nil {
			return fmt.Errorf("wait until all policies are Ready: %w", err)
		}
		if !slices.ContainsFunc(list.Items, func(p v1alpha1.RateLimitPolicy) bool {
			waits := v1alpha1.ConditionReady
			if p.Name == badName {
				waits = v1alpha1.ConditionStalled
			}
			return !meta.IsStatusConditionTrue(p.Status.Conditions, waits)
		}) {
			return nil
		}
		time.Sleep(pause)
	}
}

func (w *world) edit(ctx context.Context, i int, limit int64) error {
	policy := &v1alpha1.RateLimitPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace(i), Name: name(i)}}
	patch := fmt.Appendf(nil, `{"spec":{"limit":%d}}`, limit)
	return w.client.Patch(ctx, policy, client.RawPatch("application/merge-patch+json", patch))
}

// untilEnforced waits until every replica decides policy i against limit. It peeks, at all replicas at once.
func (w *world) untilEnforced(ctx context.Context, i int, limit int64) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	peek := fixture.CheckRequest{Domain: w.namespace(i), Path: "/", Headers: map[string]string{"x-tenant-id": tenant(i)}, Peek: true}
	group, ctx := errgroup.WithContext(ctx)
	for _, replica := range w.stack.Replicas {
		group.Go(func() error {
			for {
				answer, err := fixture.Check(ctx, replica.URL, peek)
				if err != nil {
					return fmt.Errorf("wait until %s enforces %d of %s: %w", replica.URL, limit, name(i), err)
				}
				if answer.LimitOf(w.namespace(i)+"/"+name(i)) == limit {
					return nil
				}
				time.Sleep(beat)
			}
		})
	}
	return group.Wait()
}
