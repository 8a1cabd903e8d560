// Command measure tells how long an edit of a policy takes until every replica enforces it, among many policies, on
// real parts: kube-apiserver, Redis, the operator and two limiter processes.
//
//	go run ./hack/measure -policies 1000 -edits 100
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
	namespace = "measure"
	base      = 1000 // limit of every policy; edit n makes it base + n
	patience  = 60 * time.Second
	creators  = 8
	pause     = 100 * time.Millisecond // between two looks at all policies
	beat      = time.Millisecond       // between two questions to a replica: the finest that is measured
)

func main() {
	policies := flag.Int("policies", 1000, "policies present")
	edits := flag.Int("edits", 100, "edits to time")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, *policies, *edits)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "measure:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, policies, edits int) (err error) {
	ctrl.SetLogger(logr.Discard()) // what starts the API server complains without one
	if policies < 1 || edits < 1 {
		return errors.New("-policies and -edits take positive numbers")
	}
	w, err := newWorld(ctx)
	defer func() { err = errors.Join(err, w.stop()) }()
	if err != nil {
		return err
	}
	began := time.Now()
	if err := w.create(ctx, policies); err != nil {
		return err
	}
	if err := w.untilEnforced(ctx, policies-1, base); err != nil {
		return err
	}
	fmt.Printf("%d policies created and enforced in %.1f s\n", policies, time.Since(began).Seconds())
	if err := w.untilReady(ctx); err != nil {
		return err
	}
	fmt.Printf("all of them Ready after %.1f s\n", time.Since(began).Seconds())

	var took []time.Duration
	for n := range edits {
		which, limit := n*7%policies, int64(base+n+1)
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
		len(w.stack.Replicas), edits, policies, runtime.NumCPU())
	fmt.Printf("  median %v, p90 %v, p99 %v, max %v\n", at(0.5), at(0.9), at(0.99), at(1))
	return nil
}

type world struct {
	dir    string
	kube   *fixture.KubeProcess
	redis  *fixture.RedisProcess
	stack  *fixture.Stack
	client client.Client
}

// newWorld returns what it started even when it fails.
func newWorld(ctx context.Context) (w *world, err error) {
	w = &world{}
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
	w.stack, err = fixture.StartStack(ctx, fixture.StackOptions{
		Weir: weir, Kube: w.kube, RedisURL: w.redis.URL(), Limiters: 2,
	})
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

// tenant is the header value that policy i matches.
func tenant(i int) string { return fmt.Sprintf("tenant-%05d", i) }

func (w *world) create(ctx context.Context, policies int) error {
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	if err := w.client.Create(ctx, ns); err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(creators)
	for i := range policies {
		group.Go(func() error {
			value := tenant(i)
			return w.client.Create(ctx, &v1alpha1.RateLimitPolicy{
				ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name(i)},
				Spec: v1alpha1.RateLimitPolicySpec{
					Axis: v1alpha1.AxisTenant, Limit: base, Window: "1h",
					Match: &v1alpha1.Match{HTTP: &v1alpha1.HTTPMatch{
						Headers: []v1alpha1.HeaderMatch{{Name: "x-tenant-id", Value: &value}},
					}},
				},
			})
		})
	}
	return group.Wait()
}

// untilReady waits until every policy's status says so.
func (w *world) untilReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		var list v1alpha1.RateLimitPolicyList
		if err := w.client.List(ctx, &list, client.InNamespace(namespace)); err != nil {
			return fmt.Errorf("wait until all policies are Ready: %w", err)
		}
		if !slices.ContainsFunc(list.Items, func(p v1alpha1.RateLimitPolicy) bool {
			return !meta.IsStatusConditionTrue(p.Status.Conditions, v1alpha1.ConditionReady)
		}) {
			return nil
		}
		time.Sleep(pause)
	}
}

func (w *world) edit(ctx context.Context, i int, limit int64) error {
	policy := &v1alpha1.RateLimitPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name(i)}}
	patch := fmt.Appendf(nil, `{"spec":{"limit":%d}}`, limit)
	return w.client.Patch(ctx, policy, client.RawPatch("application/merge-patch+json", patch))
}

// untilEnforced waits until every replica decides policy i against limit. It peeks, at all replicas at once.
func (w *world) untilEnforced(ctx context.Context, i int, limit int64) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	peek := fixture.CheckRequest{Domain: namespace, Path: "/", Headers: map[string]string{"x-tenant-id": tenant(i)}, Peek: true}
	group, ctx := errgroup.WithContext(ctx)
	for _, replica := range w.stack.Replicas {
		group.Go(func() error {
			for {
				answer, err := fixture.Check(ctx, replica.URL, peek)
				if err != nil {
					return fmt.Errorf("wait until %s enforces %d of %s: %w", replica.URL, limit, name(i), err)
				}
				if answer.LimitOf(namespace+"/"+name(i)) == limit {
					return nil
				}
				time.Sleep(beat)
			}
		})
	}
	return group.Wait()
}
