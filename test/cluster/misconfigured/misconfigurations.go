// Package misconfigured has the step in which Limiters report wrong configurations, and recover after a repair.
package misconfigured

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/test/cluster/scenario"
)

// Steps are the steps of a scenario.
type Steps struct{ *scenario.Scenario }

// reportTime is the time limit to report a misconfiguration, and to clear it after the repair.
const reportTime = 10 * time.Second

// misconfiguration is an error in spec.redis of a Limiter, or in its Redis.
type misconfiguration struct {
	name  string
	redis v1alpha1.Redis
	// limiterReports and policyReports are the conditions of the Limiter and of its policy.
	limiterReports, policyReports scenario.Condition
	// repaired is the correct value of spec.redis. If it is nil, fix repairs the misconfiguration.
	repaired *v1alpha1.Redis
	fix      func(context.Context, *scenario.Scenario) error
}

func misconfigurations() []misconfiguration {
	at := func(address string) v1alpha1.Redis {
		return v1alpha1.Redis{Addresses: []v1alpha1.RedisAddress{v1alpha1.RedisAddress(address + ":6379")}}
	}
	withPassword := func(secret string) v1alpha1.Redis {
		r := at("redis-password")
		r.CredentialsSecretRef = &v1alpha1.SecretReference{Name: secret}
		return r
	}
	withCA := func(secret string) v1alpha1.Redis {
		r := at("redis-tls")
		r.TLS = &v1alpha1.RedisTLS{SecretRef: &v1alpha1.SecretReference{Name: secret}}
		return r
	}
	degraded := func(reason, text string) scenario.Condition {
		return scenario.Condition{Kind: v1alpha1.ConditionDegraded, Reason: reason, Status: metav1.ConditionTrue, Text: text}
	}
	notProgrammed := func(reason string) scenario.Condition {
		return scenario.Condition{Kind: v1alpha1.ConditionProgrammed, Reason: reason, Status: metav1.ConditionFalse}
	}
	unreachable := notProgrammed("StoreUnreachable")
	correct := at("redis." + scenario.System)
	return []misconfiguration{
		{"wrong-address", at("redis-nowhere"), degraded("StoreUnreachable", "redis-nowhere"), unreachable, &correct, nil},
		{"wrong-password", withPassword("wrong-password"), degraded("StoreDenied", ""), unreachable, new(withPassword("right-password")), nil},
		{"no-password", at("redis-password"), degraded("StoreDenied", ""), unreachable, new(withPassword("right-password")), nil},
		{"wrong-ca", withCA("wrong-ca"), degraded("StoreUntrusted", ""), unreachable, new(withCA("right-ca")), nil},
		{"no-tls", at("redis-tls"), degraded("", ""), unreachable, new(withCA("right-ca")), nil},
		{
			"no-secret", withPassword("late-password"),
			scenario.Condition{Kind: v1alpha1.ConditionProgrammed, Reason: "SecretNotFound", Status: metav1.ConditionFalse, Text: "late-password"},
			notProgrammed(""), // Ready is true, because the correct Limiter enforces the policy
			nil,
			func(ctx context.Context, s *scenario.Scenario) error {
				return s.CreateAll(ctx, password("late-password", rightPassword))
			},
		},
		{
			"evicting", at("redis-evicts"), degraded("StoreEvicts", "noeviction"), scenario.Ready("Programmed"), &correct, nil,
		},
	}
}

// ReportAndRepair creates all misconfigurations at the same time, checks that each is reported, repairs them, and checks that the
// reports are cleared. The correct Limiter must not be affected.
func (s Steps) ReportAndRepair(ctx context.Context) error {
	if err := s.startMisconfiguredServers(ctx); err != nil {
		return err
	}
	for _, m := range misconfigurations() {
		if err := s.CreateAll(ctx, m.policyObject(), m.limiter()); err != nil {
			return err
		}
	}
	created := time.Now()
	for _, m := range misconfigurations() {
		limiter := m.limiter()
		s.WithinSince(ctx, created, reportTime, m.name+": its Limiter reports "+m.limiterReports.String(), s.HasCondition(limiter, m.limiterReports))
		s.Logf("  %s", scenario.ConditionText(limiter, m.limiterReports.Kind))
		s.WithinSince(ctx, created, reportTime, m.name+": its policy reports "+m.policyReports.String(), s.HasCondition(m.policyObject(), m.policyReports))
	}
	for _, m := range misconfigurations() {
		if err := m.repair(ctx, s.Scenario); err != nil {
			return err
		}
	}
	repaired := time.Now()
	for _, m := range misconfigurations() {
		s.WithinSince(ctx, repaired, reportTime, m.name+": after the repair, "+m.limiterReports.String()+" is cleared", m.isCleared(s.Scenario))
	}
	for _, l := range brokenPods() {
		if err := s.CreateAll(ctx, l); err != nil {
			return err
		}
	}
	for _, m := range misconfigurations() {
		s.WithinSince(ctx, repaired, scenario.RolloutTime, m.name+": its Limiter and its policy are Ready",
			scenario.Sequence(s.HasCondition(m.limiter(), scenario.Ready("Deployed")), s.HasCondition(m.policyObject(), scenario.Ready("Programmed"))))
	}
	s.rejectBySchema(ctx)
	return scenario.Sequence(s.reportPods, s.deleteMisconfigured, s.selectByTwoLimiters, s.selectByNoLimiter, s.useLongestNames, s.deleteNamespace)(ctx)
}

// limiter returns a Limiter with the misconfiguration. It selects the policy with the same name.
func (m misconfiguration) limiter() *v1alpha1.Limiter {
	l := scenario.SmallLimiter(scenario.Misconfigured, m.name, m.name)
	l.Spec.Redis = m.redis
	return l
}

func (m misconfiguration) policyObject() *v1alpha1.RateLimitPolicy {
	return labelled(scenario.Policy(scenario.Misconfigured, m.name, 10, "1m"), m.name)
}

func labelled(p *v1alpha1.RateLimitPolicy, label string) *v1alpha1.RateLimitPolicy {
	p.Labels = map[string]string{"misconfiguration": label}
	return p
}

func (m misconfiguration) repair(ctx context.Context, s *scenario.Scenario) error {
	if m.fix != nil {
		return m.fix(ctx, s)
	}
	return scenario.Change(ctx, s, m.limiter(), func(l *v1alpha1.Limiter) { l.Spec.Redis = *m.repaired })
}

// isCleared checks that the condition is removed, or True again.
func (m misconfiguration) isCleared(s *scenario.Scenario) scenario.Action {
	if m.limiterReports.Status == metav1.ConditionFalse {
		return s.HasCondition(m.limiter(), scenario.Condition{Kind: m.limiterReports.Kind, Status: metav1.ConditionTrue})
	}
	return s.LacksCondition(m.limiter(), m.limiterReports.Kind)
}

func (s Steps) deleteMisconfigured(ctx context.Context) error {
	for _, m := range misconfigurations() {
		if err := errors.Join(s.Delete(ctx, m.limiter()), s.Delete(ctx, m.policyObject())); err != nil {
			return err
		}
	}
	s.Within(ctx, reportTime, "the misconfigured Limiters are deleted", func(ctx context.Context) error {
		var left v1alpha1.LimiterList
		err := s.List(ctx, &left, client.InNamespace(scenario.Misconfigured))
		if err == nil && len(left.Items) > 0 {
			err = fmt.Errorf("%d Limiters still exist", len(left.Items))
		}
		return err
	})
	s.Within(ctx, reportTime, "the correct Limiter is unaffected", s.Healthy())
	return nil
}

// brokenPods returns Limiters whose pods cannot start, by what they report.
func brokenPods() map[string]*v1alpha1.Limiter {
	image, node := scenario.SmallLimiter(scenario.Misconfigured, "no-image", "none"), scenario.SmallLimiter(scenario.Misconfigured, "no-node", "none")
	image.Spec.Image = "localhost/none:1"
	node.Spec.PodTemplate.NodeSelector = map[string]string{"e2e": "none"}
	return map[string]*v1alpha1.Limiter{"1 pod: ErrImagePull: ": image, "1 pod: Unschedulable: 0/": node}
}

// reportPods checks that a Limiter whose pods cannot start reports the reason that Kubernetes gives: in the status of pods, or, if a quota rejects
// them, in the status of the Deployment. The Limiters of brokenPods exist already.
func (s Steps) reportPods(ctx context.Context) error {
	quota := scenario.SmallLimiter(scenario.Misconfigured, "no-quota", "none")
	noPods := &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: scenario.Misconfigured, Name: "no-pods"},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("0")}},
	}
	if err := s.CreateAll(ctx, noPods, quota); err != nil {
		return err
	}
	limiters := brokenPods()
	limiters["exceeded quota: no-pods"] = quota
	for text, l := range limiters {
		want := scenario.Condition{Kind: v1alpha1.ConditionReady, Reason: v1alpha1.ReasonReplicasMissing, Status: metav1.ConditionFalse, Text: text}
		s.Within(ctx, 3*reportTime, l.Name+": the Limiter reports why its pod does not run", s.HasCondition(l, want))
		s.Logf("  %s", scenario.ConditionText(l, v1alpha1.ConditionReady))
		if err := s.Delete(ctx, l); err != nil {
			return err
		}
	}
	return s.Delete(ctx, noPods)
}

// selectByTwoLimiters creates a policy that two Limiters enforce.
func (s Steps) selectByTwoLimiters(ctx context.Context) error {
	twin, p := scenario.SmallLimiter(scenario.Misconfigured, "twin", "twin"), labelled(scenario.Policy(scenario.Misconfigured, "twin", 10, "1m"), "twin")
	if err := s.CreateAll(ctx, p, twin); err != nil {
		return err
	}
	want := scenario.Ready("Programmed")
	want.Text = "all replicas of 2 Limiters"
	s.Within(ctx, scenario.RolloutTime, "a policy that two Limiters select reports both", s.HasCondition(p, want))
	s.Expect(len(p.Status.Limiters) == 2, "its status lists %d Limiters", len(p.Status.Limiters))
	return errors.Join(s.Delete(ctx, twin), s.Delete(ctx, p))
}

// selectByNoLimiter creates a policy that no Limiter selects, and then selects it.
func (s Steps) selectByNoLimiter(ctx context.Context) error {
	p := labelled(scenario.Policy(scenario.Misconfigured, "alone", 10, "1m"), "alone")
	selector := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
		{Key: "misconfiguration", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"alone"}},
	}}
	choose := func(selector *metav1.LabelSelector) error {
		return scenario.Change(ctx, s.Scenario, scenario.LimiterNamed(scenario.System, "default"), func(l *v1alpha1.Limiter) { l.Spec.PolicySelector = selector })
	}
	if err := errors.Join(s.CreateAll(ctx, p), choose(selector)); err != nil {
		return err
	}
	notSelected := scenario.Condition{Kind: "Ready", Reason: "NotSelected", Status: "False", Text: "no Limiter selects the policy"}
	s.Within(ctx, reportTime, "a policy that no Limiter selects reports NotSelected", s.HasCondition(p, notSelected))
	if err := choose(nil); err != nil {
		return err
	}
	s.Within(ctx, reportTime, "after it is selected, the policy is Ready", s.HasCondition(p, scenario.Ready("Programmed")))
	return s.Delete(ctx, p)
}

// useLongestNames creates objects with the longest valid names, and with names that are too long by one character.
func (s Steps) useLongestNames(ctx context.Context) error {
	ns, limiter, long := strings.Repeat("n", 63), strings.Repeat("l", 50), strings.Repeat("p", 63)
	l, p := scenario.SmallLimiter(ns, limiter, "long"), labelled(scenario.Policy(ns, "x", 10, "1m"), "long")
	p.Name = long
	err := s.CreateAll(ctx, scenario.Namespace(ns), p, l)
	if err != nil {
		return err
	}
	s.Within(ctx, scenario.RolloutTime, "a Limiter name of 50 characters, a policy name and a namespace of 63 characters: both are Ready",
		scenario.Sequence(s.HasCondition(l, scenario.Ready("Deployed")), s.HasCondition(p, scenario.Ready("Programmed"))))
	for _, o := range []client.Object{scenario.SmallLimiter(ns, limiter+"l", "long"), scenario.PolicyNamed(ns, long+"p")} {
		if p, is := o.(*v1alpha1.RateLimitPolicy); is {
			p.Spec = scenario.Policy(ns, "x", 10, "1m").Spec
		}
		err := s.Create(ctx, o, client.DryRunAll)
		s.Expect(apierrors.IsInvalid(err) && strings.Contains(err.Error(), "at most"), "%T %s: want a rejection of the length, got %v", o, o.GetName(), err)
	}
	s.Logf("names that are one character longer are rejected")
	if err := s.Delete(ctx, l); err != nil {
		return err
	}
	return s.Delete(ctx, scenario.Namespace(ns))
}

// rejectBySchema creates a policy that the schema rejects, without the webhook.
func (s Steps) rejectBySchema(ctx context.Context) {
	p := scenario.Policy(scenario.Misconfigured, "tiers", 10, "1m")
	for i := range 500 {
		p.Spec.Tiers = append(p.Spec.Tiers, v1alpha1.Tier{
			Name: fmt.Sprintf("t%d", i), Limit: new(int64(i + 1)), When: v1alpha1.When{Identifiers: []v1alpha1.TierIdentifier{"acme"}},
		})
	}
	err := s.Create(ctx, p, client.DryRunAll)
	s.Expect(apierrors.IsInvalid(err) && strings.Contains(err.Error(), "spec.tiers"), "want a rejection of 500 tiers, got %v", err)
	s.Logf("500 tiers: %.120v", err)
}

// deleteNamespace deletes a namespace that contains policies.
func (s Steps) deleteNamespace(ctx context.Context) error {
	var before v1alpha1.Limiter
	if err := s.Get(ctx, client.ObjectKeyFromObject(scenario.LimiterNamed(scenario.System, "default")), &before); err != nil {
		return err
	}
	for i := range 5 {
		if err := s.CreateAll(ctx, scenario.Policy(scenario.Misconfigured, fmt.Sprintf("deleted-%d", i), 10, "1m")); err != nil {
			return err
		}
	}
	_, err := scenario.Await(ctx, reportTime, s.HasCondition(scenario.PolicyNamed(scenario.Misconfigured, "deleted-4"), scenario.Ready("Programmed")))
	if err != nil {
		return err
	}
	if err := s.Delete(ctx, scenario.Namespace(scenario.Misconfigured)); err != nil {
		return err
	}
	notCounted := func(ctx context.Context) error {
		l := scenario.LimiterNamed(scenario.System, "default")
		err := s.Get(ctx, client.ObjectKeyFromObject(l), l)
		if err == nil && l.Status.Policies.Accepted > before.Status.Policies.Accepted {
			err = fmt.Errorf("the Limiter counts %d policies, want %d as before", l.Status.Policies.Accepted, before.Status.Policies.Accepted)
		}
		return err
	}
	s.Meanwhile(ctx, 60*time.Second+reportTime, "a namespace that contains policies is deleted, and the Limiter does not count them",
		scenario.Sequence(s.Deleted(scenario.Namespace(scenario.Misconfigured)), notCounted))
	return nil
}
