package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/weir-dev/weir/api/v1alpha1"
)

// Latencies are the durations of creations, each sorted. Limited are those that a policy always. For CallOnly the API server calls the
// limiter, but no policy always them. For Baseline the API server does not call the limiter.
type Latencies struct {
	Limited, CallOnly, Baseline []time.Duration
}

// MeasureLatency creates ConfigMaps with the first API server, one after the other, in three namespaces in turn: one with a policy that
// allows all creations, one with a policy whose expression never matches, and one without a policy. Other load on the machine
// affects all three.
func MeasureLatency(ctx context.Context, w *World, rounds int) (Latencies, error) {
	var l Latencies
	limited, errLimited := w.Namespace(ctx, "limited")
	callOnly, errCallOnly := w.Namespace(ctx, "call-only")
	baseline, errBaseline := w.Namespace(ctx, "baseline")
	if err := errors.Join(errLimited, errCallOnly, errBaseline); err != nil {
		return l, err
	}
	who := Person("alice")
	always, never := admitting("admitting", limited), admitting("not-matching", callOnly)
	never.Spec.Match.Kubernetes.Expression = new(v1alpha1.Expression("request.name == 'never'"))
	if err := w.Enforce(ctx, who, numbered(limited, 0), always, never); err != nil {
		return l, err
	}
	client, err := w.ClientGo(0, who)
	if err != nil {
		return l, err
	}
	before, err := w.WebhookCalls(ctx)
	if err != nil {
		return l, err
	}
	const warmUp = 50 // opens connections and fills caches
	for n := range warmUp + rounds {
		tookLimited, errLimited := create(ctx, client, numbered(limited, n))
		tookCallOnly, errCallOnly := create(ctx, client, numbered(callOnly, n))
		tookBaseline, errBaseline := create(ctx, client, numbered(baseline, n))
		if err := errors.Join(errLimited, errCallOnly, errBaseline); err != nil {
			return l, err
		}
		if n >= warmUp {
			l.Limited, l.CallOnly, l.Baseline = append(l.Limited, tookLimited), append(l.CallOnly, tookCallOnly), append(l.Baseline, tookBaseline)
		}
	}
	after, err := w.WebhookCalls(ctx)
	if err == nil && after-before != 2*(warmUp+rounds) {
		err = fmt.Errorf("%d calls of the webhook for %d creations", after-before, 2*(warmUp+rounds))
	}
	slices.Sort(l.Limited)
	slices.Sort(l.CallOnly)
	slices.Sort(l.Baseline)
	return l, err
}

// admitting returns a policy for the ConfigMaps of a namespace that denies no write.
func admitting(name, namespace string) *v1alpha1.ClusterRateLimitPolicy {
	p := &v1alpha1.ClusterRateLimitPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}}
	p.Spec.Axis, p.Spec.Limit, p.Spec.Window = v1alpha1.AxisTenant, new(int64(1_000_000)), "1m"
	p.Spec.Match = &v1alpha1.Match{Kubernetes: &v1alpha1.KubernetesMatch{
		Namespaces: []v1alpha1.NamespaceName{v1alpha1.NamespaceName(namespace)},
		Resources:  []v1alpha1.KubernetesResources{{APIGroups: []v1alpha1.APIGroup{""}, Resources: []v1alpha1.ResourceName{"configmaps"}}},
	}}
	return p
}

func numbered(namespace string, n int) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("number-%d", n)}, Data: map[string]string{"a": "b"},
	}
}

func create(ctx context.Context, client kubernetes.Interface, m *corev1.ConfigMap) (time.Duration, error) {
	began := time.Now()
	_, err := client.CoreV1().ConfigMaps(m.Namespace).Create(ctx, m, metav1.CreateOptions{})
	return time.Since(began), err
}

// Added returns how much slower the percentile of Limited is than that of Baseline, and how much of that the call itself takes.
func (l Latencies) Added(percent float64) (added, call time.Duration) {
	baseline := Percentile(l.Baseline, percent)
	return Percentile(l.Limited, percent) - baseline, Percentile(l.CallOnly, percent) - baseline
}

// Percentile returns the longest of the given share of the fastest latencies, which must be sorted.
func Percentile(sorted []time.Duration, percent float64) time.Duration {
	n := int(float64(len(sorted)) * percent / 100)
	return sorted[min(max(n, 0), len(sorted)-1)]
}
