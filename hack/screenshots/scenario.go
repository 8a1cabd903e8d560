package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-dev/weir/test/fixture"
	"github.com/weir-dev/weir/test/kubernetes"
)

//go:embed policies.yaml
var policies string

// broken has an expression that does not compile.
const broken = `
apiVersion: weir.dev/v1alpha1
kind: RateLimitPolicy
metadata: {name: broken, namespace: shop}
spec: {axis: Tenant, limit: 1, window: 1h, match: {http: {expression: "request.nothing == 1"}}}
`

const lower = `
apiVersion: weir.dev/v1alpha1
kind: RateLimitPolicy
metadata: {name: downloads, namespace: media}
spec: {axis: APIKey, limit: 100, window: 1m}
`

// duration is the length of the scenario, and the time that the pictures show.
const duration = 13 * time.Minute

// event is a part of the scenario.
type event struct {
	at   time.Duration
	what string
	do   func(context.Context) error
}

// play runs the scenario: an ordinary day, with faults.
func play(ctx context.Context, w *kubernetes.World, l *load) error {
	start := time.Now()
	writes, err := l.writers(ctx, w)
	if err != nil {
		return err
	}
	scan := traffic{120, l.checks(func() fixture.CheckRequest {
		r := shop(http.MethodGet, "/login", tenant())
		r.ClientIP = fmt.Sprintf("198.51.%d.%d", rand.IntN(100), rand.IntN(256))
		return r
	})}
	acme := traffic{60, l.checks(func() fixture.CheckRequest { return shop(http.MethodGet, "/products", "acme") })}
	also := func(d time.Duration, t traffic) func(context.Context) error {
		return func(ctx context.Context) error { l.during(ctx, d, t); return nil }
	}
	for _, e := range []event{
		{90 * time.Second, "a policy changes", func(ctx context.Context) error { return apply(ctx, w, lower) }},
		{2 * time.Minute, "a tenant sends too much for two minutes", also(2*time.Minute, acme)},
		{3 * time.Minute, "a policy that does not compile", func(ctx context.Context) error { return apply(ctx, w, broken) }},
		{5 * time.Minute, "a pipeline writes too much for two minutes", also(2*time.Minute, traffic{12, writes})},
		{6 * time.Minute, "the policy is deleted", func(ctx context.Context) error {
			_, err := w.Kube.Kubectl(ctx, "delete", "-n", "shop", "ratelimitpolicy", "broken")
			return err
		}},
		{7 * time.Minute, "Redis stops", func(context.Context) error { w.Redis.Kill(); return nil }},
		{470 * time.Second, "Redis starts", w.Redis.Restart},
		{530 * time.Second, "an address scan for 90 seconds", also(90*time.Second, scan)},
		{640 * time.Second, "Redis hangs, and 8000 requests arrive", func(ctx context.Context) error {
			err := w.Redis.Pause()
			l.surge(ctx, 8000)
			return err
		}},
		{650 * time.Second, "Redis continues", func(context.Context) error { return w.Redis.Resume() }},
		{690 * time.Second, "API servers do not reach the limiters", w.Disconnect},
		{720 * time.Second, "API servers reach the limiters again", w.Reconnect},
		{duration, "the pictures", func(context.Context) error { return nil }},
	} {
		select {
		case <-ctx.Done():
			return errors.New("interrupted")
		case <-time.After(e.at - time.Since(start)):
		}
		progress(start, e.what)
		if err := e.do(ctx); err != nil {
			return fmt.Errorf("%s: %w", e.what, err)
		}
	}
	return nil
}

// writers starts users that create and change ConfigMaps. It returns a function with which a pipeline creates one more.
func (l *load) writers(ctx context.Context, w *kubernetes.World) (pipeline func(context.Context), err error) {
	namespaces := make([]string, 3)
	for i, tenant := range []string{"acme", "globex", "initech"} {
		if namespaces[i], err = w.Namespace(ctx, tenant); err != nil {
			return nil, err
		}
	}
	alice, err := w.ClientGo(0, kubernetes.Person("alice"))
	if err != nil {
		return nil, err
	}
	robot, err := w.ClientGo(1, kubernetes.ServiceAccount(namespaces[0], "pipeline"))
	if err != nil {
		return nil, err
	}
	// Errors are the purpose: some writes are denied.
	l.run(ctx, traffic{2, func(ctx context.Context) {
		_, _ = alice.CoreV1().ConfigMaps(namespaces[rand.IntN(3)]).Create(ctx, configMap(), metav1.CreateOptions{})
	}})
	l.run(ctx, traffic{1.5, func(ctx context.Context) {
		_, _ = robot.CoreV1().ConfigMaps(namespaces[0]).Create(ctx, configMap(), metav1.CreateOptions{})
	}})
	l.run(ctx, traffic{1, func(ctx context.Context) {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{GenerateName: "s-"}}
		_, _ = alice.CoreV1().Secrets(namespaces[1]).Create(ctx, secret, metav1.CreateOptions{})
	}})
	return func(ctx context.Context) {
		_, _ = robot.CoreV1().ConfigMaps(namespaces[0]).Create(ctx, configMap(), metav1.CreateOptions{})
	}, nil
}

func configMap() *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "m-"}}
}
