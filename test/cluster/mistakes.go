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

const (
	mistaken = "e2e-mistakes" // namespace of Limiters with mistakes, and of their policies
	// named bounds how long it takes until a mistake is told, and until it is not any more.
	named = 10 * time.Second
)

// mistake is something wrong with the Redis of a Limiter.
type mistake struct {
	name  string
	redis v1alpha1.Redis
	// says is what the Limiter then says, and policy what its policy does.
	says, policy saying
	// mended is the Redis that is not wrong; absent: the same, once make is done.
	mended *v1alpha1.Redis
	make   func(context.Context, *story) error
}

func mistakes() []mistake {
	at := func(address string) v1alpha1.Redis {
		return v1alpha1.Redis{Addresses: []v1alpha1.RedisAddress{v1alpha1.RedisAddress(address + ":6379")}}
	}
	entered := func(secret string) v1alpha1.Redis {
		r := at("redis-password")
		r.CredentialsSecretRef = &v1alpha1.SecretReference{Name: secret}
		return r
	}
	trusted := func(secret string) v1alpha1.Redis {
		r := at("redis-tls")
		r.TLS = &v1alpha1.RedisTLS{SecretRef: &v1alpha1.SecretReference{Name: secret}}
		return r
	}
	degraded := func(reason, text string) saying {
		return saying{v1alpha1.ConditionDegraded, reason, metav1.ConditionTrue, text}
	}
	unprogrammed := func(reason string) saying {
		return saying{v1alpha1.ConditionProgrammed, reason, metav1.ConditionFalse, ""}
	}
	away := unprogrammed("StoreUnreachable")
	sound := at("redis." + system)
	return []mistake{
		{"wrong-address", at("redis-nowhere"), degraded("StoreUnreachable", "redis-nowhere"), away, &sound, nil},
		{"wrong-password", entered("wrong-password"), degraded("StoreDenied", ""), away, new(entered("right-password")), nil},
		{"no-password", at("redis-password"), degraded("StoreDenied", ""), away, new(entered("right-password")), nil},
		{"wrong-authority", trusted("wrong-authority"), degraded("StoreUntrusted", ""), away, new(trusted("right-authority")), nil},
		{"no-tls", at("redis-tls"), degraded("", ""), away, new(trusted("right-authority")), nil},
		{
			"no-secret", entered("late-password"),
			saying{v1alpha1.ConditionProgrammed, "SecretNotFound", metav1.ConditionFalse, "late-password"},
			saying{v1alpha1.ConditionReady, "", metav1.ConditionFalse, ""},
			nil,
			func(ctx context.Context, s *story) error {
				return s.create(ctx, password("late-password", rightPassword))
			},
		},
		{
			"evicting", at("redis-evicts"), degraded("StoreEvicts", "noeviction"), ready("Programmed"), &sound, nil,
		},
	}
}

// makeMistakes makes all of them at once, sees each named, mends them, and sees all go. The Limiter that is right is not
// to suffer.
func makeMistakes(ctx context.Context, s *story) error {
	if err := s.startMistakenServers(ctx); err != nil {
		return err
	}
	for _, m := range mistakes() {
		if err := s.create(ctx, m.policyObject(), m.limiter()); err != nil {
			return err
		}
	}
	made := time.Now()
	for _, m := range mistakes() {
		limiter := m.limiter()
		s.withinOf(ctx, made, named, m.name+": its Limiter says "+m.says.String(), s.says(limiter, m.says))
		s.say("  %s", conditionText(limiter, m.says.kind))
		s.withinOf(ctx, made, named, m.name+": its policy says "+m.policy.String(), s.says(m.policyObject(), m.policy))
	}
	for _, m := range mistakes() {
		if err := m.mend(ctx, s); err != nil {
			return err
		}
	}
	mended := time.Now()
	for _, m := range mistakes() {
		s.withinOf(ctx, mended, named, m.name+": mended, "+m.says.String()+" is gone", m.isOver(s))
	}
	for _, m := range mistakes() {
		s.withinOf(ctx, mended, rollTime, m.name+": its Limiter and its policy are Ready",
			inOrder(s.says(m.limiter(), ready("Deployed")), s.says(m.policyObject(), ready("Programmed"))))
	}
	s.refuseBySchema(ctx)
	return inOrder(s.deleteMistaken, s.selectTwice, s.selectNot, s.nameAtLength, s.deleteNamespace)(ctx)
}

// limiter is one with the mistake. It selects the policy of its name.
func (m mistake) limiter() *v1alpha1.Limiter {
	l := smallLimiter(mistaken, m.name, m.name)
	l.Spec.Redis = m.redis
	return l
}

func (m mistake) policyObject() *v1alpha1.RateLimitPolicy {
	return labelled(policy(mistaken, m.name, 10, "1m"), m.name)
}

func labelled(p *v1alpha1.RateLimitPolicy, label string) *v1alpha1.RateLimitPolicy {
	p.Labels = map[string]string{"mistake": label}
	return p
}

// smallLimiter fits on a node beside many others.
func smallLimiter(namespace, name, selected string) *v1alpha1.Limiter {
	l := limiterNamed(namespace, name)
	l.Spec = v1alpha1.LimiterSpec{
		Replicas:       new(int32(1)),
		Redis:          v1alpha1.Redis{Addresses: []v1alpha1.RedisAddress{"redis." + system + ":6379"}},
		PolicySelector: &v1alpha1.LabelSelector{MatchLabels: map[string]v1alpha1.LabelValue{"mistake": v1alpha1.LabelValue(selected)}},
		PodTemplate: v1alpha1.PodTemplate{Resources: &corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("5m"), corev1.ResourceMemory: resource.MustParse("32Mi")},
			Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("128Mi")},
		}},
	}
	return l
}

func (m mistake) mend(ctx context.Context, s *story) error {
	if m.make != nil {
		return m.make(ctx, s)
	}
	return change(ctx, s, m.limiter(), func(l *v1alpha1.Limiter) { l.Spec.Redis = *m.mended })
}

// isOver looks whether the condition is gone, or turned.
func (m mistake) isOver(s *story) step {
	if m.says.status == metav1.ConditionFalse {
		return s.says(m.limiter(), saying{kind: m.says.kind, status: metav1.ConditionTrue})
	}
	return s.saysNot(m.limiter(), m.says.kind)
}

func (s *story) deleteMistaken(ctx context.Context) error {
	for _, m := range mistakes() {
		if err := errors.Join(s.Delete(ctx, m.limiter()), s.Delete(ctx, m.policyObject())); err != nil {
			return err
		}
	}
	s.within(ctx, named, "their Limiters are gone", func(ctx context.Context) error {
		var left v1alpha1.LimiterList
		err := s.List(ctx, &left, client.InNamespace(mistaken))
		if err == nil && len(left.Items) > 0 {
			err = fmt.Errorf("%d are there", len(left.Items))
		}
		return err
	})
	s.within(ctx, named, "the Limiter that was right is as before", s.healthy())
	return nil
}

// selectTwice has two Limiters enforce one policy.
func (s *story) selectTwice(ctx context.Context) error {
	twin, p := smallLimiter(mistaken, "twin", "twin"), labelled(policy(mistaken, "twin", 10, "1m"), "twin")
	if err := s.create(ctx, p, twin); err != nil {
		return err
	}
	want := ready("Programmed")
	want.text = "3 of 3 replicas of 2 Limiters"
	s.within(ctx, rollTime, "a policy that two Limiters select says so", s.says(p, want))
	s.expect(len(p.Status.Limiters) == 2, "its status lists %d Limiters", len(p.Status.Limiters))
	return errors.Join(s.Delete(ctx, twin), s.Delete(ctx, p))
}

// selectNot has no Limiter enforce a policy, for a while.
func (s *story) selectNot(ctx context.Context) error {
	p := labelled(policy(mistaken, "alone", 10, "1m"), "alone")
	selector := &v1alpha1.LabelSelector{MatchExpressions: []v1alpha1.LabelExpression{
		{Key: "mistake", Operator: v1alpha1.LabelNotIn, Values: []v1alpha1.LabelValue{"alone"}},
	}}
	choose := func(selector *v1alpha1.LabelSelector) error {
		return change(ctx, s, limiterNamed(system, "default"), func(l *v1alpha1.Limiter) { l.Spec.PolicySelector = selector })
	}
	if err := errors.Join(s.create(ctx, p), choose(selector)); err != nil {
		return err
	}
	s.within(ctx, named, "a policy that no Limiter selects says so", s.says(p, saying{"Ready", "NotSelected", "False", "no Limiter selects the policy"}))
	if err := choose(nil); err != nil {
		return err
	}
	s.within(ctx, named, "selected, it is Ready", s.says(p, ready("Programmed")))
	return s.Delete(ctx, p)
}

// nameAtLength has names as long as can be, and one longer.
func (s *story) nameAtLength(ctx context.Context) error {
	place, limiter, long := strings.Repeat("n", 63), strings.Repeat("l", 50), strings.Repeat("p", 63)
	l, p := smallLimiter(place, limiter, "long"), labelled(policy(place, "x", 10, "1m"), "long")
	p.Name = long
	err := s.create(ctx, namespace(place), p, l)
	if err != nil {
		return err
	}
	s.within(ctx, rollTime, "a Limiter of 50 letters and a policy of 63, in a namespace of 63, are Ready",
		inOrder(s.says(l, ready("Deployed")), s.says(p, ready("Programmed"))))
	for _, o := range []client.Object{smallLimiter(place, limiter+"l", "long"), policyNamed(place, long+"p")} {
		if p, is := o.(*v1alpha1.RateLimitPolicy); is {
			p.Spec = policy(place, "x", 10, "1m").Spec
		}
		err := s.Create(ctx, o, client.DryRunAll)
		s.expect(apierrors.IsInvalid(err) && strings.Contains(err.Error(), "at most"), "%T %s: want it refused for its length, got %v", o, o.GetName(), err)
	}
	s.say("one letter more is refused")
	if err := s.Delete(ctx, l); err != nil {
		return err
	}
	return s.Delete(ctx, namespace(place))
}

// refuseBySchema has the API server refuse what it need not ask anybody about.
func (s *story) refuseBySchema(ctx context.Context) {
	p := policy(mistaken, "tiers", 10, "1m")
	for i := range 500 {
		p.Spec.Tiers = append(p.Spec.Tiers, v1alpha1.Tier{
			Name: fmt.Sprintf("t%d", i), Limit: new(int64(i + 1)), When: v1alpha1.When{Identifiers: []v1alpha1.TierIdentifier{"acme"}},
		})
	}
	err := s.Create(ctx, p, client.DryRunAll)
	s.expect(apierrors.IsInvalid(err) && strings.Contains(err.Error(), "spec.tiers"), "want 500 tiers refused, got %v", err)
	s.say("500 tiers: %.120v", err)
}

// deleteNamespace deletes one with policies in it.
func (s *story) deleteNamespace(ctx context.Context) error {
	var before v1alpha1.Limiter
	if err := s.Get(ctx, client.ObjectKeyFromObject(limiterNamed(system, "default")), &before); err != nil {
		return err
	}
	for i := range 5 {
		if err := s.create(ctx, policy(mistaken, fmt.Sprintf("leaving-%d", i), 10, "1m")); err != nil {
			return err
		}
	}
	_, err := await(ctx, named, s.says(policyNamed(mistaken, "leaving-4"), ready("Programmed")))
	if err != nil {
		return err
	}
	if err := s.Delete(ctx, namespace(mistaken)); err != nil {
		return err
	}
	s.within(ctx, 60*time.Second, "a namespace with policies in it is gone", s.gone(namespace(mistaken)))
	s.within(ctx, named, "the Limiter counts them no more", func(ctx context.Context) error {
		l := limiterNamed(system, "default")
		err := s.Get(ctx, client.ObjectKeyFromObject(l), l)
		if err == nil && l.Status.Policies.Accepted > before.Status.Policies.Accepted {
			err = fmt.Errorf("it counts %d, before there were %d", l.Status.Policies.Accepted, before.Status.Policies.Accepted)
		}
		return err
	})
	return nil
}
