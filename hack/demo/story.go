package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/weir-dev/weir/test/fixture"
)

const (
	namespace = "shop"
	policy    = "expensive-endpoint"
	limit     = 30 // of the policy, a minute
	raised    = 40 // what the story edits it to
	patience  = 30 * time.Second
)

// report is a request for the expensive endpoint.
func report() fixture.CheckRequest {
	return fixture.CheckRequest{
		Domain: namespace, Method: "GET", Path: "/v1/reports", Headers: map[string]string{"x-tenant-id": "acme"},
	}
}

func (d *demo) showPolicies(ctx context.Context) error {
	d.say("The policies: one file each, applied as any other object. Ready says that both replicas enforce them.")
	samples, err := projectPath("config", "samples")
	if err != nil {
		return err
	}
	if err := d.kubectl(ctx, "apply", "-k", samples); err != nil {
		return err
	}
	if err := d.kubectl(ctx, "wait", "--for=condition=Ready", "ratelimitpolicies", "--all", "-n", namespace, "--timeout", patience.String()); err != nil {
		return err
	}
	return d.kubectl(ctx, "get", "ratelimitpolicies", "-n", namespace)
}

// spendUntilDenied sends requests to the two replicas in turn until the first 429, which must come right after limit.
func (d *demo) spendUntilDenied(ctx context.Context) error {
	d.say("Now traffic: tenant acme asks for reports, %d a minute allowed, through both replicas in turn.", limit)
	d.curl(d.stack.Replicas[0].URL, report())
	for n := 1; n <= limit+1; n++ {
		answer, err := fixture.Check(ctx, d.stack.Replicas[n%2].URL, report())
		if err != nil {
			return err
		}
		if answer.Allowed != (n <= limit) {
			return fmt.Errorf("request %d: allowed %v, with a limit of %d", n, answer.Allowed, limit)
		}
		if n == 1 || n == limit+1 {
			fmt.Printf("\nrequest %d: %s", n, show(answer))
		} else {
			fmt.Print(".")
		}
	}
	d.say("%d passed, the next got 429, %.1f s after this demo began.", limit, time.Since(d.began).Seconds())
	return nil
}

// editLive raises the limit and waits until both replicas decide against the new one.
func (d *demo) editLive(ctx context.Context) error {
	d.say("A live edit: the limit becomes %d. What acme has spent stays spent.", raised)
	began := time.Now()
	patch := fmt.Sprintf(`{"spec":{"limit":%d}}`, raised)
	if err := d.kubectl(ctx, "patch", "ratelimitpolicy", policy, "-n", namespace, "--type=merge", "-p", patch); err != nil {
		return err
	}
	accepted := time.Now()
	if err := d.untilLimitIs(ctx, raised); err != nil {
		return err
	}
	enforced := time.Now()
	if err := d.kubectl(ctx, "wait", "--for=condition=Ready", "ratelimitpolicy", policy, "-n", namespace, "--timeout", patience.String()); err != nil {
		return err
	}
	answer, err := fixture.Check(ctx, d.stack.Replicas[0].URL, report())
	if err != nil {
		return err
	}
	if want := int64(raised - limit - 1); !answer.Allowed || answer.Remaining != want {
		return fmt.Errorf("after the edit: allowed %v with %d left, want %d left", answer.Allowed, answer.Remaining, want)
	}
	fmt.Printf("\n%s", show(answer))
	d.say("Both replicas enforced it %d ms after kubectl returned (which itself took %d ms), and acme has %d requests left, not %d.",
		enforced.Sub(accepted).Milliseconds(), accepted.Sub(began).Milliseconds(), answer.Remaining, raised-1)
	return nil
}

func (d *demo) deletePolicy(ctx context.Context) error {
	d.say("Deleting the policy ends the limit.")
	if err := d.kubectl(ctx, "delete", "ratelimitpolicy", policy, "-n", namespace); err != nil {
		return err
	}
	if err := d.untilLimitIs(ctx, 0); err != nil {
		return err
	}
	for range raised + 1 {
		answer, err := fixture.Check(ctx, d.stack.Replicas[0].URL, report())
		if err != nil {
			return err
		}
		if !answer.Allowed {
			return fmt.Errorf("denied by %s after the policy was deleted", answer.Policy)
		}
	}
	d.say("%d more requests in a row: all 200.", raised+1)
	return nil
}

// untilLimitIs waits until every replica decides against limit, 0 for no longer at all. It peeks: nothing is spent.
func (d *demo) untilLimitIs(ctx context.Context, limit int64) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	peek := report()
	peek.Peek = true
	for _, replica := range d.stack.Replicas {
		for {
			answer, err := fixture.Check(ctx, replica.URL, peek)
			if err != nil {
				return err
			}
			if answer.LimitOf(namespace+"/"+policy) == limit {
				break
			}
		}
	}
	return nil
}

// invite says what is running and how to try it.
func (d *demo) invite() {
	d.say("Everything keeps running. In another terminal:")
	fmt.Printf("  export KUBECONFIG=%s\n", d.kube.Kubeconfig())
	fmt.Printf("  %s get ratelimitpolicies -A\n", d.kube.KubectlPath())
	for i, r := range d.stack.Replicas {
		fmt.Printf("  # replica %d: %s (decides), %s/metrics\n", i, r.URL, r.OpsURL)
	}
	fmt.Printf("  %s\n", curl(d.stack.Replicas[0].URL, fixture.CheckRequest{
		Domain: namespace, Method: "GET", Path: "/v1/search", Headers: map[string]string{"x-tenant-id": "acme", "x-plan": "free"},
	}))
	fmt.Println("\nCtrl-C ends the demo and leaves nothing behind.")
}

func (d *demo) say(format string, args ...any) {
	fmt.Printf("\n\n# "+format+"\n", args...)
}

func (d *demo) command(line string) { fmt.Printf("\n$ %s\n", line) }

func (d *demo) curl(url string, request fixture.CheckRequest) { d.command(curl(url, request)) }

func curl(url string, request fixture.CheckRequest) string {
	body, err := json.Marshal(request)
	if err != nil {
		panic(err) // a struct of strings
	}
	return fmt.Sprintf("curl -i %s/v1/check -d '%s'", url, body)
}

// kubectl prints and runs a command, and prints what it answers. Paths of the project are shown as a user there types them.
func (d *demo) kubectl(ctx context.Context, args ...string) error {
	shown := slices.Clone(args)
	if cwd, err := os.Getwd(); err == nil {
		for i, arg := range shown {
			if rel, err := filepath.Rel(cwd, arg); err == nil && filepath.IsAbs(arg) {
				shown[i] = rel
			}
		}
	}
	for i, arg := range shown {
		if strings.ContainsAny(arg, `"{`) {
			shown[i] = "'" + arg + "'"
		}
	}
	d.command("kubectl " + strings.Join(shown, " "))
	out, err := d.kube.Kubectl(ctx, args...)
	fmt.Print(out)
	if err != nil {
		return errors.Join(fmt.Errorf("kubectl %s", strings.Join(shown, " ")), err)
	}
	return nil
}

// show renders an answer as curl -i would, with the headers that speak of limits.
func show(a fixture.CheckAnswer) string {
	var b strings.Builder
	fmt.Fprintf(&b, "HTTP %d\n", a.Status)
	for _, name := range []string{"RateLimit-Policy", "RateLimit", "Retry-After"} {
		if value := a.Header.Get(name); value != "" {
			fmt.Fprintf(&b, "%s: %s\n", name, value)
		}
	}
	fmt.Fprintf(&b, "%s\n", strings.TrimSpace(a.Body))
	return b.String()
}
