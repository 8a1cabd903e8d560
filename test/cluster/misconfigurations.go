package main

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
)

// misconfiguredSteps misconfigure Limiters.
type misconfiguredSteps struct{ *scenario }

// reportTime is the time limit to report a misconfiguration, and to clear it after the repair.
const reportTime = 10 * time.Second

// misconfiguration is an error in spec.redis of a Limiter, or in its Redis.
type misconfiguration struct {
	name  string
	redis v1alpha1.Redis
	// limiterReports and policyReports are the conditions of the Limiter and of its policy.
	limiterReports, policyReports condition
	// repaired is the correct value of spec.redis. If it is nil, fix repairs the misconfiguration.
	repaired *v1alpha1.Redis
	fix      func(context.Context, *scenario) error
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
	degraded := func(reason, text string) condition {
		return condition{kind: v1alpha1.ConditionDegraded, reason: reason, status: metav1.ConditionTrue, text: text}
	}
	notProgrammed := func(reason string) condition {
		return condition{kind: v1alpha1.ConditionProgrammed, reason: reason, status: metav1.ConditionFalse}
	}
	unreachable := notProgrammed("StoreUnreachable")
	correct := at("redis." + system)
	return []misconfiguration{
		{"wrong-address", at("redis-nowhere"), degraded("StoreUnreachable", "redis-nowhere"), unreachable, &correct, nil},
		{"wrong-password", withPassword("wrong-password"), degraded("StoreDenied", ""), unreachable, new(withPassword("right-password")), nil},
		{"no-password", at("redis-password"), degraded("StoreDenied", ""), unreachable, new(withPassword("right-password")), nil},
		{"wrong-ca", withCA("wrong-ca"), degraded("StoreUntrusted", ""), unreachable, new(withCA("right-ca")), nil},
		{"no-tls", at("redis-tls"), degraded("", ""), unreachable, new(withCA("right-ca")), nil},
		{
			"no-secret", withPassword("late-password"),
			condition{kind: v1alpha1.ConditionProgrammed, reason: "SecretNotFound", status: metav1.ConditionFalse, text: "late-password"},
			notProgrammed(""), // Ready is true, because the correct Limiter enforces the policy
			nil,
			func(ctx context.Context, s *scenario) error {
				return s.create(ctx, password("late-password", rightPassword))
			},
		},
		{
			"evicting", at("redis-evicts"), degraded("StoreEvicts", "noeviction"), ready("Programmed"), &correct, nil,
		},
	}
}

// testMisconfigurations creates all misconfigurations at the same time, checks that each is reported, repairs them, and checks that the
// reports are cleared. The correct Limiter must not be affected.
func (s misconfiguredSteps) testMisconfigurations(ctx context.Context) error {
	if err := s.startMisconfiguredServers(ctx); err != nil {
		return err
	}
	for _, m := range misconfigurations() {
		if err := s.create(ctx, m.policyObject(), m.limiter()); err != nil {
			return err
		}
	}
	created := time.Now()
	for _, m := range misconfigurations() {
		limiter := m.limiter()
		s.withinSince(ctx, created, reportTime, m.name+": its Limiter reports "+m.limiterReports.String(), s.hasCondition(limiter, m.limiterReports))
		s.logf("  %s", conditionText(limiter, m.limiterReports.kind))
		s.withinSince(ctx, created, reportTime, m.name+": its policy reports "+m.policyReports.String(), s.hasCondition(m.policyObject(), m.policyReports))
	}
	for _, m := range misconfigurations() {
		if err := m.repair(ctx, s.scenario); err != nil {
			return err
		}
	}
	repaired := time.Now()
	for _, m := range misconfigurations() {
		s.withinSince(ctx, repaired, reportTime, m.name+": after the repair, "+m.limiterReports.String()+" is cleared", m.isCleared(s.scenario))
	}
	for _, l := range brokenPods() {
		if err := s.create(ctx, l); err != nil {
			return err
		}
	}
	for _, m := range misconfigurations() {
		s.withinSince(ctx, repaired, rolloutTime, m.name+": its Limiter and its policy are Ready",
			sequence(s.hasCondition(m.limiter(), ready("Deployed")), s.hasCondition(m.policyObject(), ready("Programmed"))))
	}
	s.rejectBySchema(ctx)
	return sequence(s.reportPods, s.deleteMisconfigured, s.selectByTwoLimiters, s.selectByNoLimiter, s.useLongestNames, s.deleteNamespace)(ctx)
}

// limiter returns a Limiter with the misconfiguration. It selects the policy with the same name.
func (m misconfiguration) limiter() *v1alpha1.Limiter {
	l := smallLimiter(misconfigured, m.name, m.name)
	l.Spec.Redis = m.redis
	return l
}

func (m misconfiguration) policyObject() *v1alpha1.RateLimitPolicy {
	return labelled(policy(misconfigured, m.name, 10, "1m"), m.name)
}

func labelled(p *v1alpha1.RateLimitPolicy, label string) *v1alpha1.RateLimitPolicy {
	p.Labels = map[string]string{"misconfiguration": label}
	return p
}

func (m misconfiguration) repair(ctx context.Context, s *scenario) error {
	if m.fix != nil {
		return m.fix(ctx, s)
	}
	return change(ctx, s, m.limiter(), func(l *v1alpha1.Limiter) { l.Spec.Redis = *m.repaired })
}

// isCleared checks that the condition is removed, or True again.
func (m misconfiguration) isCleared(s *scenario) action {
	if m.limiterReports.status == metav1.ConditionFalse {
		return s.hasCondition(m.limiter(), condition{kind: m.limiterReports.kind, status: metav1.ConditionTrue})
	}
	return s.lacksCondition(m.limiter(), m.limiterReports.kind)
}

func (s misconfiguredSteps) deleteMisconfigured(ctx context.Context) error {
	for _, m := range misconfigurations() {
		if err := errors.Join(s.Delete(ctx, m.limiter()), s.Delete(ctx, m.policyObject())); err != nil {
			return err
		}
	}
	s.within(ctx, reportTime, "the misconfigured Limiters are deleted", func(ctx context.Context) error {
		var left v1alpha1.LimiterList
		err := s.List(ctx, &left, client.InNamespace(misconfigured))
		if err == nil && len(left.Items) > 0 {
			err = fmt.Errorf("%d Limiters still exist", len(left.Items))
		}
		return err
	})
	s.within(ctx, reportTime, "the correct Limiter is unaffected", s.healthy())
	return nil
}

// brokenPods returns Limiters whose pods cannot start, by what they report.
func brokenPods() map[string]*v1alpha1.Limiter {
	image, node := smallLimiter(misconfigured, "no-image", "none"), smallLimiter(misconfigured, "no-node", "none")
	image.Spec.Image = "localhost/none:1"
	node.Spec.PodTemplate.NodeSelector = map[string]string{"e2e": "none"}
	return map[string]*v1alpha1.Limiter{"1 pod: ErrImagePull: ": image, "1 pod: Unschedulable: 0/": node}
}

// reportPods checks that a Limiter whose pods cannot start reports the reason that Kubernetes gives: in the status of pods, or, if a quota rejects
// them, in the status of the Deployment. The Limiters of brokenPods exist already.
func (s misconfiguredSteps) reportPods(ctx context.Context) error {
	quota := smallLimiter(misconfigured, "no-quota", "none")
	noPods := &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: misconfigured, Name: "no-pods"},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("0")}},
	}
	if err := s.create(ctx, noPods, quota); err != nil {
		return err
	}
	limiters := brokenPods()
	limiters["exceeded quota: no-pods"] = quota
	for text, l := range limiters {
		want := condition{kind: v1alpha1.ConditionReady, reason: v1alpha1.ReasonReplicasMissing, status: metav1.ConditionFalse, text: text}
		s.within(ctx, 3*reportTime, l.Name+": the Limiter reports why its pod does not run", s.hasCondition(l, want))
		s.logf("  %s", conditionText(l, v1alpha1.ConditionReady))
		if err := s.Delete(ctx, l); err != nil {
			return err
		}
	}
	return s.Delete(ctx, noPods)
}

// selectByTwoLimiters creates a policy that two Limiters enforce.
func (s misconfiguredSteps) selectByTwoLimiters(ctx context.Context) error {
	twin, p := smallLimiter(misconfigured, "twin", "twin"), labelled(policy(misconfigured, "twin", 10, "1m"), "twin")
	if err := s.create(ctx, p, twin); err != nil {
		return err
	}
	want := ready("Programmed")
	want.text = "all replicas of 2 Limiters"
	s.within(ctx, rolloutTime, "a policy that two Limiters select reports both", s.hasCondition(p, want))
	s.expect(len(p.Status.Limiters) == 2, "its status lists %d Limiters", len(p.Status.Limiters))
	return errors.Join(s.Delete(ctx, twin), s.Delete(ctx, p))
}

// selectByNoLimiter creates a policy that no Limiter selects, and then selects it.
func (s misconfiguredSteps) selectByNoLimiter(ctx context.Context) error {
	p := labelled(policy(misconfigured, "alone", 10, "1m"), "alone")
	selector := &v1alpha1.LabelSelector{MatchExpressions: []v1alpha1.LabelExpression{
		{Key: "misconfiguration", Operator: v1alpha1.LabelNotIn, Values: []v1alpha1.LabelValue{"alone"}},
	}}
	choose := func(selector *v1alpha1.LabelSelector) error {
		return change(ctx, s.scenario, limiterNamed(system, "default"), func(l *v1alpha1.Limiter) { l.Spec.PolicySelector = selector })
	}
	if err := errors.Join(s.create(ctx, p), choose(selector)); err != nil {
		return err
	}
	notSelected := condition{kind: "Ready", reason: "NotSelected", status: "False", text: "no Limiter selects the policy"}
	s.within(ctx, reportTime, "a policy that no Limiter selects reports NotSelected", s.hasCondition(p, notSelected))
	if err := choose(nil); err != nil {
		return err
	}
	s.within(ctx, reportTime, "after it is selected, the policy is Ready", s.hasCondition(p, ready("Programmed")))
	return s.Delete(ctx, p)
}

// useLongestNames creates objects with the longest valid names, and with names that are too long by one character.
func (s misconfiguredSteps) useLongestNames(ctx context.Context) error {
	ns, limiter, long := strings.Repeat("n", 63), strings.Repeat("l", 50), strings.Repeat("p", 63)
	l, p := smallLimiter(ns, limiter, "long"), labelled(policy(ns, "x", 10, "1m"), "long")
	p.Name = long
	err := s.create(ctx, namespace(ns), p, l)
	if err != nil {
		return err
	}
	s.within(ctx, rolloutTime, "a Limiter name of 50 characters, a policy name and a namespace of 63 characters: both are Ready",
		sequence(s.hasCondition(l, ready("Deployed")), s.hasCondition(p, ready("Programmed"))))
	for _, o := range []client.Object{smallLimiter(ns, limiter+"l", "long"), policyNamed(ns, long+"p")} {
		if p, is := o.(*v1alpha1.RateLimitPolicy); is {
			p.Spec = policy(ns, "x", 10, "1m").Spec
		}
		err := s.Create(ctx, o, client.DryRunAll)
		s.expect(apierrors.IsInvalid(err) && strings.Contains(err.Error(), "at most"), "%T %s: want a rejection of the length, got %v", o, o.GetName(), err)
	}
	s.logf("names that are one character longer are rejected")
	if err := s.Delete(ctx, l); err != nil {
		return err
	}
	return s.Delete(ctx, namespace(ns))
}

// rejectBySchema creates a policy that the schema rejects, without the webhook.
func (s misconfiguredSteps) rejectBySchema(ctx context.Context) {
	p := policy(misconfigured, "tiers", 10, "1m")
	for i := range 500 {
		p.Spec.Tiers = append(p.Spec.Tiers, v1alpha1.Tier{
			Name: fmt.Sprintf("t%d", i), Limit: new(int64(i + 1)), When: v1alpha1.When{Identifiers: []v1alpha1.TierIdentifier{"acme"}},
		})
	}
	err := s.Create(ctx, p, client.DryRunAll)
	s.expect(apierrors.IsInvalid(err) && strings.Contains(err.Error(), "spec.tiers"), "want a rejection of 500 tiers, got %v", err)
	s.logf("500 tiers: %.120v", err)
}

// deleteNamespace deletes a namespace that contains policies.
func (s misconfiguredSteps) deleteNamespace(ctx context.Context) error {
	var before v1alpha1.Limiter
	if err := s.Get(ctx, client.ObjectKeyFromObject(limiterNamed(system, "default")), &before); err != nil {
		return err
	}
	for i := range 5 {
		if err := s.create(ctx, policy(misconfigured, fmt.Sprintf("deleted-%d", i), 10, "1m")); err != nil {
			return err
		}
	}
	_, err := await(ctx, reportTime, s.hasCondition(policyNamed(misconfigured, "deleted-4"), ready("Programmed")))
	if err != nil {
		return err
	}
	if err := s.Delete(ctx, namespace(misconfigured)); err != nil {
		return err
	}
	notCounted := func(ctx context.Context) error {
		l := limiterNamed(system, "default")
		err := s.Get(ctx, client.ObjectKeyFromObject(l), l)
		if err == nil && l.Status.Policies.Accepted > before.Status.Policies.Accepted {
			err = fmt.Errorf("the Limiter counts %d policies, want %d as before", l.Status.Policies.Accepted, before.Status.Policies.Accepted)
		}
		return err
	}
	s.meanwhile(ctx, 60*time.Second+reportTime, "a namespace that contains policies is deleted, and the Limiter does not count them",
		sequence(s.deleted(namespace(misconfigured)), notCounted))
	return nil
}
