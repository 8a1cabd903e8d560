package install

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/test/cluster/scenario"
)

// DeleteWithoutRedis deletes a Limiter whose Redis is unreachable, which must not prevent the deletion.
func (s Steps) DeleteWithoutRedis(ctx context.Context) error {
	dead := scenario.SmallLimiter(scenario.Traffic, "dead", "none")
	dead.Spec.Redis.Addresses = []v1alpha1.RedisAddress{"redis-nowhere:6379"}
	if err := s.CreateAll(ctx, dead); err != nil {
		return err
	}
	if err := scenario.WaitUntil(s.HasCondition(dead, scenario.Condition{Kind: "Degraded", Reason: "StoreUnreachable", Status: "True"}))(ctx); err != nil {
		return err
	}
	if err := s.Delete(ctx, dead); err != nil {
		return err
	}
	s.Meanwhile(ctx, 45*time.Second, "a Limiter whose Redis is unreachable is deleted", s.Deleted(dead))
	s.Meanwhile(ctx, 105*time.Second, "all its objects are deleted", s.Deleted(limiterObjects(scenario.Traffic, "dead")...))
	return nil
}

// DeleteLimiter deletes the Limiter. Redis must not keep its rules or heartbeats.
func (s Steps) DeleteLimiter(ctx context.Context) error {
	keys, err := s.redisKeys(ctx)
	if err != nil {
		return err
	}
	s.Logf("Redis has %d keys that are not counters", len(keys))
	s.Expect(len(keys) >= 3, "want at least the revision, a rule set and the heartbeats, got %v", keys)
	if err := s.Run(ctx, "kubectl", "-n", scenario.System, "delete", "limiter", "default", "--timeout=30s"); err != nil {
		return err
	}
	s.Within(ctx, 60*time.Second, "all objects of a Limiter are deleted", s.Deleted(limiterObjects(scenario.System, "default")...))
	// A pod that drains sends another heartbeat, and heartbeats live for ten seconds.
	s.Within(ctx, 30*time.Second, "its rules and heartbeats in Redis are deleted", s.rulesDeleted)
	p := scenario.PolicyNamed(scenario.Traffic, scenario.SteadyPolicy)
	notSelected := scenario.Condition{Kind: "Ready", Reason: "NotSelected", Status: "False"}
	s.Within(ctx, 10*time.Second, "policies report that no Limiter selects them", s.HasCondition(p, notSelected))
	return nil
}

// limiterObjects returns the objects that the operator creates for a Limiter, and the Limiter.
func limiterObjects(namespace, name string) []client.Object {
	at := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: namespace, Name: name} }
	all := at("weir-limiter-" + name)
	return []client.Object{
		scenario.LimiterNamed(namespace, name),
		&appsv1.Deployment{ObjectMeta: all}, &corev1.Service{ObjectMeta: all}, &corev1.ServiceAccount{ObjectMeta: all},
		&corev1.ConfigMap{ObjectMeta: all}, &corev1.ConfigMap{ObjectMeta: at("weir-rules-" + name)},
		&policyv1.PodDisruptionBudget{ObjectMeta: all}, &networkingv1.NetworkPolicy{ObjectMeta: all},
	}
}

// rulesDeleted checks that Redis has no rules and no heartbeats.
func (s Steps) rulesDeleted(ctx context.Context) error {
	keys, err := s.redisKeys(ctx)
	if err != nil {
		return err
	}
	if len(keys) > 0 {
		return fmt.Errorf("key %s is still in Redis and expires in %v", keys[0].name, keys[0].expires)
	}
	return nil
}

// redisKey is a key and its remaining time to live. A negative value means that it does not expire.
type redisKey struct {
	name    string
	expires time.Duration
}

// redisKeys returns the keys in Redis that are not counters.
func (s Steps) redisKeys(ctx context.Context) (keys []redisKey, err error) {
	redis, err := s.Forward(ctx, "service/redis", scenario.RedisPort)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, redis.Stop()) }()
	names, err := redis.Command(ctx, "KEYS weir:*")
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if strings.Contains(name, ":throttle:") {
			continue
		}
		reply, err := redis.Command(ctx, "PTTL "+name)
		if err != nil {
			return nil, err
		}
		milliseconds, err := strconv.Atoi(strings.Join(reply, " "))
		if err != nil {
			return nil, fmt.Errorf("PTTL %s: %w", name, err)
		}
		keys = append(keys, redisKey{name, time.Duration(milliseconds) * time.Millisecond})
	}
	return keys, nil
}
