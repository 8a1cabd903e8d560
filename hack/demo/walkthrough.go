package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
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
	limit     = 30 // of the policy, per minute
	raised    = 40 // the limit after the edit
	timeout   = 30 * time.Second
)

// request returns the request that the walkthrough sends. The policy matches it.
func request() fixture.CheckRequest {
	return fixture.CheckRequest{
		Domain: namespace, Method: "GET", Path: "/v1/reports", Headers: map[string]string{"x-tenant-id": "acme"},
	}
}

func (d *demo) applyPolicies(ctx context.Context) error {
	d.step("Apply policies, and wait until both replicas enforce them")
	samples, err := projectPath("config", "samples")
	if err != nil {
		return err
	}
	if err := d.kubectl(ctx, "apply", "-k", samples); err != nil {
		return err
	}
	if err := d.kubectl(ctx, "wait", "--for=condition=Ready", "ratelimitpolicies", "--all", "-n", namespace, "--timeout", timeout.String()); err != nil {
		return err
	}
	return d.kubectl(ctx, "get", "ratelimitpolicies", "-n", namespace)
}

// sendRequests sends requests to both replicas in turn. The replicas must allow exactly limit of them.
func (d *demo) sendRequests(ctx context.Context) error {
	d.step(fmt.Sprintf("Send requests to both replicas: tenant acme can call /v1/reports %d times per minute", limit))
	first, second := d.stack.Replicas[0].URL, d.stack.Replicas[1].URL
	d.command(fmt.Sprintf("export WEIR_1=%s WEIR_2=%s REQUEST='%s'", first, second, body(request())))
	sent := 0
	send := func(url string) (fixture.CheckAnswer, error) {
		sent++
		answer, err := fixture.Check(ctx, url, request())
		if err == nil && answer.Allowed != (sent <= limit) {
			err = fmt.Errorf("request %d with a limit of %d: allowed is %v", sent, limit, answer.Allowed)
		}
		return answer, err
	}
	d.command(curlHeaders("WEIR_1"))
	answer, err := send(first)
	if err != nil {
		return err
	}
	fmt.Print(headers(answer))
	d.command(`for i in $(seq 15); do for url in $WEIR_2 $WEIR_1; do
    curl -s -o /dev/null -w '%{http_code}\n' $url/v1/check -d "$REQUEST"; done; done | uniq -c`)
	for sent <= limit {
		for _, url := range []string{second, first} {
			if _, err := send(url); err != nil {
				return err
			}
		}
	}
	fmt.Printf("%7d 200\n%7d 429\n", limit-1, sent-limit)
	d.command(curlHeaders("WEIR_2"))
	if answer, err = send(second); err != nil {
		return err
	}
	fmt.Print(headers(answer))
	return nil
}

// editPolicy raises the limit and waits until both replicas enforce the new one.
func (d *demo) editPolicy(ctx context.Context) error {
	d.step(fmt.Sprintf("Raise the limit to %d: the units that acme has spent stay spent", raised))
	patch := fmt.Sprintf(`{"spec":{"limit":%d}}`, raised)
	if err := d.kubectl(ctx, "patch", "ratelimitpolicy", policy, "-n", namespace, "--type=merge", "-p", patch); err != nil {
		return err
	}
	patched := time.Now()
	if err := d.awaitLimit(ctx, raised); err != nil {
		return err
	}
	enforced := time.Since(patched)
	if err := d.kubectl(ctx, "wait", "--for=condition=Ready", "ratelimitpolicy", policy, "-n", namespace, "--timeout", timeout.String()); err != nil {
		return err
	}
	d.comment(fmt.Sprintf("Both replicas enforced the new limit %d ms after kubectl patch returned.", enforced.Milliseconds()))
	d.command(curlHeaders("WEIR_1"))
	answer, err := fixture.Check(ctx, d.stack.Replicas[0].URL, request())
	if err != nil {
		return err
	}
	if want := int64(raised - limit - 1); !answer.Allowed || answer.Remaining != want {
		return fmt.Errorf("after the edit: allowed is %v with %d units remaining, want %d", answer.Allowed, answer.Remaining, want)
	}
	fmt.Print(headers(answer))
	return nil
}

func (d *demo) deletePolicy(ctx context.Context) error {
	d.step("Delete the policy: the limit no longer applies")
	if err := d.kubectl(ctx, "delete", "ratelimitpolicy", policy, "-n", namespace); err != nil {
		return err
	}
	if err := d.awaitLimit(ctx, 0); err != nil {
		return err
	}
	d.command(fmt.Sprintf(`for i in $(seq %d); do
    curl -s -o /dev/null -w '%%{http_code}\n' $WEIR_1/v1/check -d "$REQUEST"; done | uniq -c`, raised+1))
	for range raised + 1 {
		answer, err := fixture.Check(ctx, d.stack.Replicas[0].URL, request())
		if err != nil {
			return err
		}
		if !answer.Allowed {
			return fmt.Errorf("policy %s denied a request after the policy was deleted", answer.Policy)
		}
	}
	fmt.Printf("%7d 200\n", raised+1)
	return nil
}

// awaitLimit waits until both replicas enforce limit; 0 means that the policy is not enforced. It peeks, which spends no units.
func (d *demo) awaitLimit(ctx context.Context, limit int64) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	peek := request()
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

// showAddresses prints the addresses of the running processes and commands to try them.
func (d *demo) showAddresses() {
	d.step("Try it yourself in another terminal; Ctrl-C here stops and removes everything")
	fmt.Printf("export KUBECONFIG=%s\n%s get ratelimitpolicies -A\n", d.kube.Kubeconfig(), d.kube.KubectlPath())
	fmt.Printf("curl -i %s/v1/check -d '%s'\n", d.stack.Replicas[0].URL, body(fixture.CheckRequest{
		Domain: namespace, Method: "GET", Path: "/v1/search", Headers: map[string]string{"x-tenant-id": "acme", "x-plan": "free"},
	}))
	for _, r := range d.stack.Replicas {
		fmt.Printf("curl %s/metrics\n", r.OpsURL)
	}
}

// step prints a numbered heading.
func (d *demo) step(title string) {
	d.steps++
	fmt.Printf("\n\n# %d. %s\n", d.steps, title)
}

func (d *demo) comment(text string) { fmt.Printf("# %s\n", text) }

func (d *demo) command(line string) { fmt.Printf("$ %s\n", line) }

func body(request fixture.CheckRequest) string {
	text, err := json.Marshal(request)
	if err != nil {
		panic(err) // cannot fail: the fields are strings
	}
	return string(text)
}

// curlHeaders returns the command for a request that prints the headers about limits, as the function headers does.
func curlHeaders(variable string) string {
	return fmt.Sprintf(`curl -si $%s/v1/check -d "$REQUEST" | grep -E '^(HTTP|RateLimit|Retry-After)'`, variable)
}

// headers returns the status line and the headers about limits.
func headers(a fixture.CheckAnswer) string {
	var b strings.Builder
	fmt.Fprintf(&b, "HTTP/1.1 %d %s\n", a.Status, http.StatusText(a.Status))
	for _, name := range []string{"RateLimit", "RateLimit-Policy", "Retry-After"} {
		if value := a.Header.Get(name); value != "" {
			fmt.Fprintf(&b, "%s: %s\n", name, value)
		}
	}
	return b.String()
}

// kubectl prints a command, runs it and prints its output. It prints paths in the repository relative to the working directory.
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
