package report

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/controllers/limiterevents"
	"github.com/weir-dev/weir/controllers/ruleset/selection"
)

// The bounds of events. What exceeds them is not recorded: the conditions of the policy have it.
const (
	// eventsPerPolicy is the number of events of a policy, then one every eventInterval.
	eventsPerPolicy = 8
	eventInterval   = 5 * time.Minute
	// burstOfEvents is the number of events of all policies, then eventsPerSecond.
	burstOfEvents   = 100
	eventsPerSecond = 5
	// eventTimeout bounds the creation of one event.
	eventTimeout = 5 * time.Second
)

// Events records transitions of the conditions of policies. The recorder of client-go would count a second event with another message as a
// repetition of the first one.
type Events struct {
	client   client.Client
	clock    func() time.Time
	queue    chan *eventsv1.Event
	all      *rate.Limiter
	byPolicy map[types.UID]*rate.Limiter
}

// NewEvents returns an Events that records nothing until Run is called.
func NewEvents(c client.Client, clock func() time.Time) *Events {
	return &Events{
		client: c, clock: clock, queue: make(chan *eventsv1.Event, burstOfEvents), all: rate.NewLimiter(eventsPerSecond, burstOfEvents),
		byPolicy: map[types.UID]*rate.Limiter{},
	}
}

// Run creates the events until ctx is done.
func (e *Events) Run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case event := <-e.queue:
			if err := e.create(ctx, event); err != nil && ctx.Err() == nil {
				log.FromContext(ctx).Info("an event about a policy was not created", "policy", event.Regarding.Namespace+"/"+event.Regarding.Name,
					"reason", event.Reason, "error", err.Error())
			}
		}
	}
}

func (e *Events) create(ctx context.Context, event *eventsv1.Event) error {
	ctx, cancel := context.WithTimeout(ctx, eventTimeout)
	defer cancel()
	return e.client.Create(ctx, event)
}

// record queues an event for each transition of p from one status to another. It never waits. A nil Events records nothing.
func (e *Events) record(p selection.Policy, before, after v1alpha1.RateLimitPolicyStatus) {
	if e == nil {
		return
	}
	for _, t := range transitions(before.Conditions, after.Conditions) {
		if !e.admit(p.GetUID()) {
			return
		}
		select {
		case e.queue <- newEvent(p, t, e.clock()):
		default:
			return
		}
	}
}

func (e *Events) admit(policy types.UID) bool {
	of := e.byPolicy[policy]
	if of == nil {
		of = rate.NewLimiter(rate.Every(eventInterval), eventsPerPolicy)
		e.byPolicy[policy] = of
	}
	now := e.clock()
	return of.AllowN(now, 1) && e.all.AllowN(now, 1)
}

// forget forgets a policy that does not exist any more.
func (e *Events) forget(policy types.UID) {
	if e != nil {
		delete(e.byPolicy, policy)
	}
}

// transition is an event to record.
type transition struct{ kind, reason, message string }

// The reasons of events about policies. Reset and Bypassed are those of package adminproxy.
const (
	eventAccepted   = "Accepted"
	eventRejected   = "Rejected"
	eventOverridden = "Overridden"
	eventProgrammed = "Programmed"
)

// transitions returns the events for a change of the conditions of a policy. An edit is a transition, too.
func transitions(before, after []metav1.Condition) (all []transition) {
	add := func(condition string, status metav1.ConditionStatus, kind, reason string) {
		is := meta.FindStatusCondition(after, condition)
		if is == nil || is.Status != status {
			return
		}
		was := meta.FindStatusCondition(before, condition)
		if was == nil || was.Status != status || was.ObservedGeneration != is.ObservedGeneration {
			all = append(all, transition{kind, reason, is.Message})
		}
	}
	add(v1alpha1.ConditionAccepted, metav1.ConditionTrue, corev1.EventTypeNormal, eventAccepted)
	add(v1alpha1.ConditionAccepted, metav1.ConditionFalse, corev1.EventTypeWarning, eventRejected)
	add(v1alpha1.ConditionOverridden, metav1.ConditionTrue, corev1.EventTypeNormal, eventOverridden)
	add(v1alpha1.ConditionProgrammed, metav1.ConditionTrue, corev1.EventTypeNormal, eventProgrammed)
	return all
}

func newEvent(p selection.Policy, t transition, now time.Time) *eventsv1.Event {
	kind, namespace := "RateLimitPolicy", p.GetNamespace()
	if p.Cluster {
		kind, namespace = "ClusterRateLimitPolicy", metav1.NamespaceDefault
	}
	return &eventsv1.Event{
		ObjectMeta:          metav1.ObjectMeta{GenerateName: "weir-policy-", Namespace: namespace},
		EventTime:           metav1.NewMicroTime(now),
		ReportingController: "weir-operator", ReportingInstance: "weir-operator",
		Type: t.kind, Reason: t.reason, Action: "Report", Note: limiterevents.CutNote(fmt.Sprintf("generation %d: %s", p.GetGeneration(), t.message)),
		Regarding: corev1.ObjectReference{
			APIVersion: v1alpha1.GroupVersion.String(), Kind: kind, Namespace: p.GetNamespace(), Name: p.GetName(), UID: p.GetUID(),
		},
	}
}
