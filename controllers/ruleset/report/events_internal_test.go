package report

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/controllers/ruleset/selection"
)

// conditionsOf returns conditions from, for example, "Accepted=True/1 Programmed=False/1": a status and a generation.
func conditionsOf(text string) (all []metav1.Condition) {
	for field := range strings.FieldsSeq(text) {
		var c metav1.Condition
		name, rest, _ := strings.Cut(field, "=")
		status, generation, _ := strings.Cut(rest, "/")
		c.Type, c.Status, c.Message = name, metav1.ConditionStatus(status), "is "+status
		_, _ = fmt.Sscan(generation, &c.ObservedGeneration)
		all = append(all, c)
	}
	return all
}

func TestTransitions_AreChangesOfConditionsAndEdits(t *testing.T) {
	for _, c := range []struct{ before, after, want string }{
		{"", "Accepted=True/1 Programmed=False/1", "Accepted"},
		{"Accepted=True/1 Programmed=False/1", "Accepted=True/1 Programmed=True/1", "Programmed"},
		{"Accepted=True/1 Programmed=True/1", "Accepted=True/1 Programmed=True/1 Degraded=True/1", ""},
		{"Accepted=True/1 Programmed=True/1", "Accepted=True/1 Programmed=False/1", ""},
		{"Accepted=True/1 Programmed=True/1", "Accepted=True/2 Programmed=True/2", "Accepted Programmed"},
		{"Accepted=True/1 Programmed=True/1", "Accepted=False/2 Programmed=False/2", "Rejected"},
		{"Accepted=False/2", "Accepted=False/2", ""},
		{"Accepted=False/2", "Accepted=False/3", "Rejected"},
		{"Accepted=True/1 Programmed=True/1", "Accepted=True/1 Programmed=True/1 Overridden=True/1", "Overridden"},
		{"Accepted=True/1 Overridden=True/1", "Accepted=True/1", ""},
		{"Accepted=Unknown/1", "Accepted=Unknown/2", ""},
	} {
		var got []string
		for _, e := range transitions(conditionsOf(c.before), conditionsOf(c.after)) {
			got = append(got, e.reason)
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%q to %q: %q, want %q", c.before, c.after, got, c.want)
		}
	}
}

// recording is an Events with an API server.
type recording struct {
	*Events

	t    *testing.T
	kube client.Client
}

func newRecording(t *testing.T) *recording {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := eventsv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	kube := fake.NewClientBuilder().WithScheme(scheme).Build()
	return &recording{NewEvents(kube, time.Now), t, kube}
}

// notes returns the events, sorted, and deletes them.
func (r *recording) notes() (all []string) {
	r.t.Helper()
	synctest.Wait()
	var list eventsv1.EventList
	if err := r.kube.List(context.Background(), &list); err != nil {
		r.t.Fatal(err)
	}
	for i := range list.Items {
		e := &list.Items[i]
		all = append(all, fmt.Sprintf("%s %s %s in %s: %s: %s", e.Type, e.Regarding.Kind, e.Regarding.Name, e.Namespace, e.Reason, e.Note))
		if err := r.kube.Delete(context.Background(), e); err != nil {
			r.t.Fatal(err)
		}
	}
	slices.Sort(all)
	return all
}

func policyNamed(name string) selection.Policy {
	return selection.Policy{Name: "shop/" + name, Object: &v1alpha1.RateLimitPolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID(name), Generation: 3},
	}}
}

func statusOf(text string) v1alpha1.RateLimitPolicyStatus {
	return v1alpha1.RateLimitPolicyStatus{Conditions: conditionsOf(text)}
}

func TestEvents_NameThePolicyAndItsGeneration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRecording(t)
		ctx, cancel := context.WithCancel(t.Context())
		go func() { _ = r.Run(ctx) }()
		cluster := selection.Policy{Name: "_cluster/all", Cluster: true, Object: &v1alpha1.ClusterRateLimitPolicy{ObjectMeta: metav1.ObjectMeta{Name: "all", UID: "all"}}}
		r.record(policyNamed("a"), statusOf(""), statusOf("Accepted=False/3"))
		r.record(cluster, statusOf(""), statusOf("Accepted=True/0"))
		want := []string{
			"Normal ClusterRateLimitPolicy all in default: Accepted: generation 0: is True",
			"Warning RateLimitPolicy a in shop: Rejected: generation 3: is False",
		}
		if got := r.notes(); !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
		cancel()
		synctest.Wait()
	})
}

func TestEvents_AreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRecording(t)
		ctx, cancel := context.WithCancel(t.Context())
		go func() { _ = r.Run(ctx) }()
		flap := func(name string) {
			for range 20 {
				r.record(policyNamed(name), statusOf("Programmed=False/1"), statusOf("Programmed=True/1"))
				synctest.Wait()
			}
		}
		flap("a")
		if n := len(r.notes()); n != 8 {
			t.Errorf("%d events of one policy, want 8", n)
		}
		time.Sleep(5 * time.Minute)
		flap("a")
		if n := len(r.notes()); n != 1 {
			t.Errorf("%d events after five minutes, want 1", n)
		}
		for i := range 50 {
			flap(fmt.Sprint("p", i))
		}
		if n := len(r.notes()); n != 99 {
			t.Errorf("%d events of all policies, want the 99 that remain of 100", n)
		}
		time.Sleep(time.Second)
		for i := range 50 {
			r.record(policyNamed(fmt.Sprint("q", i)), statusOf(""), statusOf("Accepted=True/1"))
			synctest.Wait()
		}
		if n := len(r.notes()); n != 5 {
			t.Errorf("%d events in a second, want 5", n)
		}
		for policy := range r.byPolicy {
			r.forget(policy)
		}
		if len(r.byPolicy) > 0 {
			t.Errorf("policies that were deleted are remembered: %d", len(r.byPolicy))
		}
		cancel()
		synctest.Wait()
	})
}

func TestEvents_LogThoseThatWereNotCreated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRecording(t)
		refused := errors.New("refused")
		calls, timeout := 0, time.Duration(0)
		r.client = interceptor.NewClient(fake.NewClientBuilder().Build(), interceptor.Funcs{
			Create: func(ctx context.Context, _ client.WithWatch, _ client.Object, _ ...client.CreateOption) error {
				deadline, _ := ctx.Deadline()
				timeout = time.Until(deadline)
				if calls++; calls == 1 {
					return nil
				}
				return refused
			},
		})
		var lines []string
		logger := funcr.New(func(_, line string) { lines = append(lines, line) }, funcr.Options{})
		ctx, cancel := context.WithCancel(log.IntoContext(t.Context(), logger))
		go func() { _ = r.Run(ctx) }()
		r.record(policyNamed("a"), statusOf(""), statusOf("Accepted=True/1"))
		synctest.Wait()
		if timeout != 5*time.Second || len(lines) != 0 {
			t.Errorf("created within %v, logged %q; want 5 seconds and nothing", timeout, lines)
		}
		r.record(policyNamed("b"), statusOf(""), statusOf("Accepted=True/1"))
		synctest.Wait()
		if len(lines) != 1 || !strings.Contains(lines[0], "was not created") || !strings.Contains(lines[0], "shop/b") || !strings.Contains(lines[0], "refused") {
			t.Errorf("logged %q", lines)
		}
		cancel()
		synctest.Wait()
	})
}

// The reporter must not wait for the API server.
func TestEvents_WaitForNothing(t *testing.T) {
	r := newRecording(t)
	for i := range 300 {
		r.record(policyNamed(fmt.Sprint("p", i)), statusOf(""), statusOf("Accepted=True/1"))
	}
	if n := len(r.queue); n != 100 {
		t.Errorf("%d events wait, want 100", n)
	}
	var none *Events
	none.record(policyNamed("a"), statusOf(""), statusOf("Accepted=True/1"))
	none.forget("a")
}
