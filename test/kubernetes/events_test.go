package kubernetes

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// eventSpec describes an Event: its user, and the object that it is about.
type eventSpec struct {
	user, namespace, source, object string
}

// event returns an Event of the core group for even attempts, else one of events.k8s.io. API servers store both as one kind.
func (o eventSpec) event(attempt int) client.Object {
	about := corev1.ObjectReference{Kind: "Pod", Namespace: o.namespace, Name: o.object}
	meta := metav1.ObjectMeta{GenerateName: "e-", Namespace: o.namespace}
	if attempt%2 == 0 {
		return &corev1.Event{
			ObjectMeta: meta, InvolvedObject: about, Source: corev1.EventSource{Component: o.source}, Reason: "Some", Type: "Normal",
		}
	}
	return &eventsv1.Event{
		ObjectMeta: meta, Regarding: about, ReportingController: o.source, ReportingInstance: "one", Action: "Some", Reason: "Some", Type: "Normal",
		EventTime: metav1.NowMicro(),
	}
}

// The sample policies have the four kinds of limits of the admission plugin. A burst that is too large for a test is reduced, together with
// its rate.
func TestSamples_ReplaceTheEventRateLimitPlugin(t *testing.T) {
	w := newWorld(t)
	a, b := mustGet[string](t)(w.Namespace(t.Context(), "acme")), mustGet[string](t)(w.Namespace(t.Context(), "umbrella"))
	one := eventSpec{user: "alice", namespace: a, source: "one", object: "x"}
	for _, kind := range []struct {
		name  string
		burst int64 // 0 keeps the burst of the sample
		// core uses only Events of the core group: API servers do not know the source of the others.
		core bool
		// also are Events that count together with the first one. others are Events that do not.
		also, others []eventSpec
	}{
		{
			name: "server", burst: 30,
			also: []eventSpec{{user: "bob", namespace: b, source: "two", object: "y"}},
		},
		{
			name: "namespace", burst: 20,
			also:   []eventSpec{{user: "bob", namespace: a, source: "two", object: "y"}},
			others: []eventSpec{{user: "alice", namespace: b, source: "one", object: "x"}},
		},
		{
			name: "user", burst: 15,
			also:   []eventSpec{{user: "alice", namespace: b, source: "two", object: "y"}},
			others: []eventSpec{{user: "bob", namespace: a, source: "one", object: "x"}},
		},
		{
			name: "source-and-object", core: true,
			also:   []eventSpec{{user: "bob", namespace: a, source: "one", object: "x"}},
			others: []eventSpec{{user: "alice", namespace: a, source: "one", object: "y"}, {user: "alice", namespace: a, source: "two", object: "x"}},
		},
	} {
		t.Run(kind.name, func(t *testing.T) {
			p := sample(t, "kubernetes-events-"+kind.name)
			if kind.burst > 0 {
				p.Spec.Limit, p.Spec.Burst = new(int64(1)), new(kind.burst)
			}
			create := func(server, attempt int, o eventSpec) error {
				if kind.core {
					attempt = 0
				}
				return mustGet[client.Client](t)(w.As(server, pipeline(o.user))).Create(t.Context(), o.event(attempt))
			}
			must(t, w.Enforce(t.Context(), pipeline("alice"), one.event(0), p))
			counted := append([]eventSpec{one}, kind.also...)
			began := time.Now()
			passed := flood(t, int(3**p.Spec.Burst), func(server, attempt int) error {
				return create(server, attempt, counted[attempt/2%len(counted)])
			})
			took := time.Since(began)
			burst := int(*p.Spec.Burst)
			most := burst + int(float64(*p.Spec.Limit)*took.Seconds()) + 1
			t.Logf("%d Events passed in %v, the burst is %d", passed, took.Round(time.Millisecond), burst)
			if passed < burst || passed > most {
				t.Errorf("%d Events passed, want %d to %d", passed, burst, most)
			}
			for _, o := range kind.others {
				if err := create(0, 0, o); err != nil {
					t.Errorf("%+v: %v", o, err)
				}
			}
		})
	}
}
