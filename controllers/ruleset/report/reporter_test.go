package report

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-dev/weir/api/v1alpha1"
	v1alpha1ac "github.com/weir-dev/weir/api/v1alpha1/applyconfiguration/api/v1alpha1"
	"github.com/weir-dev/weir/controllers/ruleset/publish"
	"github.com/weir-dev/weir/controllers/ruleset/selection"
	"github.com/weir-dev/weir/internal/compile/gateway"
)

// cached is a client whose lists are a cache that a test fills. It records the statuses that are applied, and gives each a
// resource version. controllers/ruleset tests the same with an API server.
type cached struct {
	client.Client

	mu         sync.Mutex
	lists      int // of policies in namespaces
	limiters   []v1alpha1.Limiter
	namespaced []v1alpha1.RateLimitPolicy
	cluster    []v1alpha1.ClusterRateLimitPolicy
	failing    map[string]error // by "list" or the name of an object
	written    []string
	statuses   map[string]v1alpha1.RateLimitPolicyStatus
	limiter    v1alpha1.LimiterStatus
	version    int               // of the Limiter: the number of writes
	over       map[string]string // the resource versions of the requests
}

func (c *cached) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	switch list := list.(type) {
	case *v1alpha1.LimiterList:
		list.Items = slices.Clone(c.limiters)
		return c.failing["list"]
	case *v1alpha1.RateLimitPolicyList:
		c.lists++
		list.Items = slices.Clone(c.namespaced)
		return c.failing["list policies"]
	case *v1alpha1.ClusterRateLimitPolicyList:
		list.Items = slices.Clone(c.cluster)
	}
	return nil
}

func (c *cached) Status() client.SubResourceWriter { return statusWriter{cached: c} }

type statusWriter struct {
	client.SubResourceWriter

	*cached
}

func (w statusWriter) Apply(_ context.Context, o runtime.ApplyConfiguration, _ ...client.SubResourceApplyOption) error {
	text, err := json.Marshal(o)
	if err != nil {
		return err
	}
	var request struct {
		Kind     string
		Metadata metav1.ObjectMeta
		Status   json.RawMessage
	}
	if err := json.Unmarshal(text, &request); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	name := request.Metadata.Name
	if err := w.failing[name]; err != nil {
		return err
	}
	if isCluster := strings.HasPrefix(name, "cluster-"); isCluster != (request.Kind == "ClusterRateLimitPolicy") || isCluster && request.Metadata.Namespace != "" {
		return fmt.Errorf("%s %s/%s", request.Kind, request.Metadata.Namespace, name)
	}
	w.written = append(w.written, name)
	w.over[name] = request.Metadata.ResourceVersion
	version := fmt.Sprint("written-", len(w.written))
	switch o := o.(type) {
	case *v1alpha1ac.RateLimitPolicyApplyConfiguration:
		o.ResourceVersion = &version
	case *v1alpha1ac.ClusterRateLimitPolicyApplyConfiguration:
		o.ResourceVersion = &version
	case *v1alpha1ac.LimiterApplyConfiguration:
		w.version++
		o.WithResourceVersion(strconv.Itoa(w.version))
		w.limiter = v1alpha1.LimiterStatus{}
		return json.Unmarshal(request.Status, &w.limiter)
	}
	var status v1alpha1.RateLimitPolicyStatus
	err = json.Unmarshal(request.Status, &status)
	w.statuses[name] = status
	return err
}

// reporting is a Reporter, its cluster and the state of its only Limiter.
type reporting struct {
	*testing.T
	*Reporter
	*cached
	now   time.Time
	state LimiterState
}

func newReporting(t *testing.T) *reporting {
	c := &cached{failing: map[string]error{}, statuses: map[string]v1alpha1.RateLimitPolicyStatus{}, over: map[string]string{}}
	c.limiters = []v1alpha1.Limiter{{ObjectMeta: metav1.ObjectMeta{Namespace: edge.Namespace, Name: edge.Name, UID: "edge"}}}
	r := &reporting{T: t, cached: c, now: time.Unix(1_800_000_000, 0).UTC()}
	r.Reporter = &Reporter{Client: c, Clock: func() time.Time { return r.now }, States: NewLimiterStates()}
	r.state = *stateOf(publish.Delivery{Replicas: serving(2, 2)})
	r.state.Considered, r.state.RuleSet.Policies = map[types.UID]int64{}, map[types.UID]int64{}
	return r
}

// add adds a policy that the Limiter selects, with its rule.
func (r *reporting) add(name string) {
	meta := metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID(name), Generation: 1, ResourceVersion: "1"}
	spec := v1alpha1.RateLimitPolicySpec{Axis: v1alpha1.AxisTenant, Limit: new(int64(10)), Window: "1m", Algorithm: v1alpha1.FixedWindow}
	full := "shop/" + name
	if strings.HasPrefix(name, "cluster-") {
		p := v1alpha1.ClusterRateLimitPolicy{ObjectMeta: meta}
		p.Namespace, p.Spec.RateLimitPolicySpec = "", spec
		r.cluster = append(r.cluster, p)
		full = "_cluster/" + name
	} else {
		r.namespaced = append(r.namespaced, v1alpha1.RateLimitPolicy{ObjectMeta: meta, Spec: spec})
	}
	r.state.Considered[meta.UID], r.state.RuleSet.Policies[meta.UID] = 1, 1
	effective := v1alpha1.EffectivePolicy{
		Rates: []v1alpha1.EffectiveRate{{Policy: full, Algorithm: v1alpha1.FixedWindow, Limit: new(int64(10)), Window: "1m", KeyPattern: "weir:*"}},
	}
	r.state.RuleSet.Rules[full] = selection.Rule{Policy: full, Revision: "r1", Effective: effective}
	for i := range r.state.Delivery.Replicas {
		r.state.Delivery.Replicas[i].Rules[full] = "r1"
	}
}

// round sets the state and runs the Reporter once. It checks which policies it writes, and when it runs again.
func (r *reporting) round(want string, requeue time.Duration) {
	r.Helper()
	r.States.Set(r.state)
	r.written = nil
	result, err := r.Reconcile(r.Context(), ctrl.Request{})
	if err != nil {
		r.Fatal(err)
	}
	slices.Sort(r.written) // several at a time
	if got := strings.Join(r.written, " "); got != want || result.RequeueAfter != requeue {
		r.Errorf("wrote %q and waits for %v; want %q and %v", got, result.RequeueAfter, want, requeue)
	}
}

// receive makes the cache receive the statuses that were written.
func (r *reporting) receive() {
	for i := range r.namespaced {
		p := &r.namespaced[i]
		if status, ok := r.statuses[p.Name]; ok {
			p.Status, p.ResourceVersion = status, p.ResourceVersion+"'"
		}
	}
	for i := range r.cluster {
		p := &r.cluster[i]
		if status, ok := r.statuses[p.Name]; ok {
			p.Status, p.ResourceVersion = status, p.ResourceVersion+"'"
		}
	}
}

func TestReporter_WritesEachStatusOnce(t *testing.T) {
	r := newReporting(t)
	r.add("daily")
	r.add("cluster-floor")
	r.round("cluster-floor daily", time.Minute)
	for name, status := range r.statuses {
		if !meta.IsStatusConditionTrue(status.Conditions, "Ready") || status.ObservedGeneration != 1 || len(status.Limiters) != 1 ||
			status.Limiters[0].Revision != "r1" || status.Effective == nil || status.Effective.Summary != "" {
			t.Errorf("status of %s: %+v", name, status)
		}
	}
	r.round("", time.Minute) // the cache does not have the write yet
	r.receive()
	r.round("", time.Minute)
	r.namespaced[0].Status, r.namespaced[0].ResourceVersion = v1alpha1.RateLimitPolicyStatus{}, "9" // another client
	r.round("daily", time.Minute)
	if r.over["daily"] != "9" {
		t.Errorf("wrote over version %s, want that of the cache", r.over["daily"])
	}
	r.state.Delivery.Replicas[1].Rules["shop/daily"] = "r0"
	r.state.Delivery.AtLeast = 3
	r.round("cluster-floor daily", time.Minute)
	if got := r.statuses["daily"].Limiters[0]; *got.Acknowledged != 1 || *got.Replicas != 3 {
		t.Errorf("%d of %d replicas", *got.Acknowledged, *got.Replicas)
	}
	if r.over["daily"] == "9" || !strings.HasPrefix(r.over["daily"], "written-") {
		t.Errorf("wrote over version %s, want that of the write that the cache does not have", r.over["daily"])
	}
}

func TestReporter_WaitsForTheStatesOfAllLimiters(t *testing.T) {
	r := newReporting(t)
	r.add("daily")
	r.limiters = append(r.limiters, v1alpha1.Limiter{ObjectMeta: metav1.ObjectMeta{Namespace: "weir-system", Name: "new", UID: "new"}})
	r.round("", time.Minute)
	second := r.state
	second.Limiter.Name = "new"
	r.States.Set(second) // of a Limiter with that name that was deleted
	r.round("", time.Minute)
	now := metav1.NewTime(r.now)
	r.limiters[1].DeletionTimestamp = &now
	r.round("daily", time.Minute)
	r.namespaced[0].Generation, r.namespaced[0].ResourceVersion = 2, "2" // the Limiter has not seen the edit yet
	r.add("hourly")
	delete(r.state.Considered, "hourly")
	r.add("weekly")
	r.round("weekly", time.Minute)
}

func TestReporter_BoundsTheWritesOfARound(t *testing.T) {
	r := newReporting(t)
	for i := range StatusesPerRound + 10 {
		r.add(fmt.Sprint("p", i))
	}
	r.States.Set(r.state)
	for i, want := range []int{StatusesPerRound, 10, 0} {
		r.written = nil
		result, err := r.Reconcile(t.Context(), ctrl.Request{})
		if err != nil || len(r.written) != want || (result.RequeueAfter == time.Millisecond) != (i == 0) {
			t.Errorf("round %d: %d writes, then waits for %v (%v); want %d", i, len(r.written), result.RequeueAfter, err, want)
		}
	}
}

// Rounds that only continue evaluate nothing, and a policy that is edited meanwhile does not wait for the others.
func TestReporter_ContinuesUntilSomethingChanges(t *testing.T) {
	r := newReporting(t)
	r.add("daily")
	r.round("daily", time.Minute)
	r.receive()
	for i := range 3*StatusesPerRound - 1 {
		r.add(fmt.Sprint("p", i))
	}
	r.States.Set(r.state)
	r.Changed()
	next := func(lists int) {
		t.Helper()
		r.written, r.lists = nil, 0
		if _, err := r.Reconcile(t.Context(), ctrl.Request{}); err != nil {
			t.Fatal(err)
		}
		if r.lists != lists || len(r.written) != StatusesPerRound && len(r.pending.statuses) > 0 {
			t.Errorf("%d lists and %d writes, want %d and %d", r.lists, len(r.written), lists, StatusesPerRound)
		}
	}
	next(1)
	next(0)
	r.namespaced[0].Generation, r.namespaced[0].ResourceVersion = 2, "edited"
	r.state.Considered["daily"] = 2
	r.Changed()
	next(1)
	if !slices.Contains(r.written, "daily") {
		t.Error("the edited policy waits for the others")
	}
	r.now = r.now.Add(maxWait)
	next(1)
	if len(r.pending.statuses) != 0 || len(r.statuses) != 3*StatusesPerRound {
		t.Errorf("%d statuses are pending, and %d written", len(r.pending.statuses), len(r.statuses))
	}
}

// A label changes the version of a policy, and is not reported as a change.
func TestReporter_RetriesSoonWhatFailsInAnEarlierRound(t *testing.T) {
	for name, failure := range map[string]error{
		"a conflict":    apierrors.NewConflict(schema.GroupResource{Resource: "ratelimitpolicies"}, "p0", errors.New("edited")),
		"another error": errors.New("refused"),
	} {
		r := newReporting(t)
		for i := range StatusesPerRound + 1 {
			r.add(fmt.Sprint("p", i))
		}
		r.States.Set(r.state)
		r.Changed()
		r.failing["p0"] = failure
		if result, err := r.Reconcile(t.Context(), ctrl.Request{}); err == nil && result.RequeueAfter != NextRound {
			t.Errorf("%s: the first round waits for %v", name, result.RequeueAfter)
		}
		delete(r.failing, "p0")
		if result, err := r.Reconcile(t.Context(), ctrl.Request{}); err != nil || result.RequeueAfter != ConflictRetry {
			t.Errorf("%s: the last round waits for %v (%v), want %v", name, result.RequeueAfter, err, ConflictRetry)
		}
		if _, err := r.Reconcile(t.Context(), ctrl.Request{}); err != nil || len(r.statuses) != StatusesPerRound+1 {
			t.Errorf("%s: %d statuses are written (%v), want all", name, len(r.statuses), err)
		}
	}
}

func TestReporter_RetriesWhatFails(t *testing.T) {
	resource := schema.GroupResource{Resource: "ratelimitpolicies"}
	refused := errors.New("refused")
	r := newReporting(t)
	for _, name := range []string{"daily", "hourly"} {
		r.add(name)
	}
	r.failing["daily"] = apierrors.NewConflict(resource, "daily", refused)
	r.round("hourly", 100*time.Millisecond)
	r.failing["daily"] = apierrors.NewNotFound(resource, "daily")
	r.round("", time.Minute)
	for _, failing := range []string{"daily", "list", "list policies"} {
		r.failing = map[string]error{failing: refused}
		if _, err := r.Reconcile(t.Context(), ctrl.Request{}); !errors.Is(err, refused) || failing == "daily" && !strings.Contains(err.Error(), "write status of shop/daily") {
			t.Errorf("%s: %v, want its error", failing, err)
		}
	}
	r.failing = nil
	r.round("daily", time.Minute)
	r.round("", time.Minute)
}

func TestReporter_WritesTargetsAndHowTheyAreMatched(t *testing.T) {
	r := newReporting(t)
	r.add("daily")
	r.round("daily", time.Minute)
	if s := r.statuses["daily"]; s.Effective.MatchedBy != "" || s.Ancestors != nil {
		t.Errorf("without targets: %+v", s)
	}
	ref := routeRef("checkout")
	ref.Namespace, ref.SectionName = new("shop"), new("pay")
	r.add("attached")
	r.namespaced[1].Spec.TargetRefs = []v1alpha1.TargetReference{ref}
	r.state.RuleSet.Targets = map[selection.Key][]gateway.Target{{Name: "shop/attached"}: {target("checkout", "Accepted")}}
	rule := r.state.RuleSet.Rules["shop/attached"]
	rule.Effective.MatchedBy = v1alpha1.MatchedByRouteName
	r.state.RuleSet.Rules["shop/attached"] = rule
	r.round("attached", time.Minute)
	s := r.statuses["attached"]
	if len(s.Ancestors) != 1 || s.Effective.MatchedBy != v1alpha1.MatchedByRouteName {
		t.Fatalf("with a target: %+v", s)
	}
	if diff := cmp.Diff(ref, s.Ancestors[0].AncestorRef); diff != "" || s.Ancestors[0].Conditions[0].Message != "message of checkout" {
		t.Errorf("%+v (-spec +status):\n%s", s.Ancestors[0], diff)
	}
}

func TestReporter_RecordsAnEventForEachStatus(t *testing.T) {
	r := newReporting(t)
	r.Events = NewEvents(r.cached, func() time.Time { return r.now })
	r.add("daily")
	r.round("daily", time.Minute)
	if n := len(r.Events.queue); n != 3 {
		t.Errorf("%d events, want that the policy is accepted, enforced and overridden", n)
	}
	r.round("", time.Minute)
	if n := len(r.Events.queue); n != 3 || len(r.Events.byPolicy) != 1 {
		t.Errorf("%d events of %d policies without another write", n, len(r.Events.byPolicy))
	}
	r.namespaced = nil
	r.round("", time.Minute)
	if n := len(r.Events.byPolicy); n != 0 {
		t.Errorf("%d policies are known after they were deleted", n)
	}
}

// A policy for writes waits until it is known whether API servers call the Limiter.
func TestReporter_WaitsForTheWebhookOfAPolicyForWrites(t *testing.T) {
	r := newReporting(t)
	r.add("daily")
	r.namespaced[0].Spec.Match = &v1alpha1.Match{Kubernetes: &v1alpha1.KubernetesMatch{}}
	r.round("", time.Minute)
	for _, test := range []struct {
		webhook Webhook
		writes  string
		message string // of the condition Ready; empty if it is true
	}{
		{Webhook{Problem: "no pod is ready"}, "daily", "no pod is ready"},
		{Webhook{Problem: "no pod is ready"}, "", "no pod is ready"},
		{Webhook{}, "daily", "the webhook does not cover this generation of the policy yet"},
		{Webhook{Covers: map[types.UID]Coverage{"daily": {0, true}}}, "", "the webhook does not cover this generation of the policy yet"},
		{Webhook{Covers: map[types.UID]Coverage{"daily": {1, false}}}, "daily", "the policy matches only writes that are never limited"},
		{Webhook{Covers: map[types.UID]Coverage{"daily": {1, true}}}, "daily", ""},
	} {
		r.States.SetWebhooks(map[types.UID]Webhook{"edge": test.webhook})
		r.round(test.writes, time.Minute)
		ready := meta.FindStatusCondition(r.statuses["daily"].Conditions, "Ready")
		if (ready.Status == metav1.ConditionTrue) != (test.message == "") || !strings.Contains(ready.Message, test.message) {
			t.Errorf("%+v: Ready is %+v, want %q", test.webhook, ready, test.message)
		}
	}
}

func TestSetWebhooks_NotifiesOfChangesOnly(t *testing.T) {
	states := NewLimiterStates()
	covers := func(generation int64) map[types.UID]Webhook {
		return map[types.UID]Webhook{"edge": {Covers: map[types.UID]Coverage{"daily": {generation, true}}}}
	}
	for _, test := range []struct {
		name     string
		webhooks map[types.UID]Webhook
		notifies bool
	}{
		{"none", nil, false},
		{"a problem", map[types.UID]Webhook{"edge": {Problem: "a"}}, true},
		{"the same problem", map[types.UID]Webhook{"edge": {Problem: "a"}}, false},
		{"another problem", map[types.UID]Webhook{"edge": {Problem: "b"}}, true},
		{"a covered policy", covers(1), true},
		{"the same policy", covers(1), false},
		{"another generation", covers(2), true},
	} {
		states.SetWebhooks(test.webhooks)
		notified := false
		select {
		case <-states.Changed():
			notified = true
		default:
		}
		if notified != test.notifies {
			t.Errorf("%s: notified %t, want %t", test.name, notified, test.notifies)
		}
	}
}

func TestReporter_ReportsPoliciesThatNoLimiterSelects(t *testing.T) {
	r := newReporting(t)
	r.add("daily")
	r.add("bad")
	r.namespaced[1].Spec.Window = "1 week"
	clear(r.state.RuleSet.Policies)
	r.round("bad daily", time.Minute)
	for name, want := range map[string]string{"daily": "True", "bad": "False"} {
		accepted := meta.FindStatusCondition(r.statuses[name].Conditions, "Accepted")
		ready := meta.FindStatusCondition(r.statuses[name].Conditions, "Ready")
		if accepted == nil || string(accepted.Status) != want || ready == nil || ready.Status != "False" || len(r.statuses[name].Limiters) != 0 {
			t.Errorf("%s: %+v", name, r.statuses[name])
		}
	}
}

// The selectors of a Limiter are invalid, and its Redis and its snapshot are unavailable when the operator starts.
func TestReporter_WritesStatusesWhileTheSelectionOfALimiterIsUnknown(t *testing.T) {
	r := newReporting(t)
	r.add("daily")
	r.round("daily", time.Minute)
	r.receive()
	enforced := r.statuses["daily"]
	r.add("new")
	unknown := func(change func(*v1alpha1.Limiter)) {
		l := r.limiters[0].DeepCopy()
		change(l)
		r.state = UnknownSelection(l, r.state.Considered)
	}
	condition := func(name, kind string) string {
		c := meta.FindStatusCondition(r.statuses[name].Conditions, kind)
		if c == nil {
			return ""
		}
		return string(c.Status) + " " + c.Reason
	}

	unknown(func(*v1alpha1.Limiter) {})
	r.States = NewLimiterStates()
	r.round("daily new", time.Minute)
	if got := condition("new", "Ready"); got != "False NotSelected" {
		t.Errorf("a policy that the Limiter did not select: Ready=%s", got)
	}
	after := r.statuses["daily"]
	if condition("daily", "Ready") != "True Programmed" || condition("daily", "Degraded") != "" ||
		after.Limiters[0].Revision != "r1" || after.Effective == nil || !reflect.DeepEqual(after.Effective, enforced.Effective) {
		t.Errorf("a policy that the Limiter enforces: %+v", after)
	}
	r.receive()
	unknown(func(*v1alpha1.Limiter) {})
	r.round("", time.Minute)

	r.namespaced[0].Generation, r.namespaced[0].ResourceVersion = 2, "edited"
	r.state.Considered["daily"] = 2
	r.round("daily", time.Minute)
	if got := condition("daily", "Ready"); got != "False StoreUnreachable" {
		t.Errorf("the policy is edited: Ready=%s", got)
	}
}

func TestOutcomeOfUnknown_KeepsWhatTheStatusReports(t *testing.T) {
	entry := v1alpha1.PolicyLimiterStatus{Namespace: edge.Namespace, Name: edge.Name, Revision: "r1", Conditions: []metav1.Condition{
		{Type: v1alpha1.ConditionProgrammed, Status: metav1.ConditionTrue, ObservedGeneration: 1},
	}}
	reported := v1alpha1.RateLimitPolicyStatus{Limiters: []v1alpha1.PolicyLimiterStatus{entry}, Effective: &v1alpha1.EffectivePolicy{Rates: []v1alpha1.EffectiveRate{{Limit: new(int64(7))}}}}
	for name, test := range map[string]struct {
		generation         int64
		change             func(*LimiterState, *v1alpha1.RateLimitPolicyStatus)
		selected, enforced bool
	}{
		"enforced":        {1, func(*LimiterState, *v1alpha1.RateLimitPolicyStatus) {}, true, true},
		"edited since":    {2, func(*LimiterState, *v1alpha1.RateLimitPolicyStatus) {}, true, false},
		"no pod is ready": {1, func(s *LimiterState, _ *v1alpha1.RateLimitPolicyStatus) { s.NoReadyPods = true }, true, false},
		"not programmed": {1, func(_ *LimiterState, r *v1alpha1.RateLimitPolicyStatus) {
			r.Limiters[0].Conditions[0].Status = metav1.ConditionFalse
		}, true, false},
		"over budget":         {1, func(_ *LimiterState, r *v1alpha1.RateLimitPolicyStatus) { r.Limiters[0].Revision = "" }, false, false},
		"of another Limiter":  {1, func(_ *LimiterState, r *v1alpha1.RateLimitPolicyStatus) { r.Limiters[0].Name = "other" }, false, false},
		"nothing is reported": {1, func(_ *LimiterState, r *v1alpha1.RateLimitPolicyStatus) { *r = v1alpha1.RateLimitPolicyStatus{} }, false, false},
	} {
		limiter := &v1alpha1.Limiter{ObjectMeta: metav1.ObjectMeta{Namespace: edge.Namespace, Name: edge.Name}}
		s, r := UnknownSelection(limiter, nil), *reported.DeepCopy()
		test.change(&s, &r)
		o, selected := outcomeAt(&s, policyOf(test.generation), r)
		if selected != test.selected || o.enforced != test.enforced || selected && (o.rule.Revision != "r1" || *o.rule.Effective.Rates[0].Limit != 7 || o.unavailable == "") {
			t.Errorf("%s: selected %v, %+v", name, selected, o)
		}
	}
}

// A Limiter that has not enforced a policy for a minute does not keep it from being ready any longer, if another one does.
func TestReporter_WritesWhenADeadlinePasses(t *testing.T) {
	r := newReporting(t)
	r.add("daily")
	r.limiters = append(r.limiters, v1alpha1.Limiter{ObjectMeta: metav1.ObjectMeta{Namespace: "weir-system", Name: "late", UID: "edge"}})
	late := r.state
	late.Limiter.Name = "late"
	late.Delivery = publish.Delivery{Replicas: serving(2, 1)}
	r.States.Set(late)
	r.round("daily", time.Minute)
	ready := func() string { return meta.FindStatusCondition(r.statuses["daily"].Conditions, "Ready").Reason }
	if ready() != "Pending" {
		t.Errorf("ready: %s, want Pending", ready())
	}
	r.now = r.now.Add(50 * time.Second)
	r.round("", 10*time.Second)
	r.receive()
	r.round("", 10*time.Second)
	r.now = r.now.Add(10 * time.Second)
	r.round("daily", time.Minute)
	if ready() != "PartiallyProgrammed" {
		t.Errorf("ready: %s, want PartiallyProgrammed", ready())
	}
}
