package commands

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/test/cluster/scenario"
)

const (
	dailyPolicy  = "daily"
	dailyLimit   = 6
	exportPolicy = "export"
	customer     = "acme"
	// defaultPods selects the pods of the Limiter.
	defaultPods = "app.kubernetes.io/instance=default,app.kubernetes.io/component=limiter"
	// effectTime is how long the replicas may take to act on a command after it has returned.
	effectTime = time.Second
)

// badDays are what the commands must answer when something is wrong. What they print is part of the report.
type badDays struct {
	*scenario.Scenario

	replicas []*scenario.Forwarded
	pods     []string // of the replicas
}

// AnswerBadDays runs the commands of docs/how-to and docs/runbooks in situations in which they are needed.
func (s Steps) AnswerBadDays(ctx context.Context) (err error) {
	b := &badDays{Scenario: s.Scenario}
	daily := scenario.Policy(scenario.Support, dailyPolicy, dailyLimit, "24h")
	daily.Spec.Algorithm, daily.Spec.Match = "SlidingWindowLog", nil
	if err := s.CreateAll(ctx, scenario.Namespace(scenario.Support), daily); err != nil {
		return err
	}
	defer func() {
		b.disconnect()
		err = errors.Join(err, s.Delete(context.WithoutCancel(ctx), scenario.Namespace(scenario.Support)))
	}()
	if _, err := scenario.Await(ctx, 30*time.Second, s.HasCondition(daily, scenario.Ready("Programmed"))); err != nil {
		return err
	}
	if err := b.connect(ctx); err != nil {
		return err
	}
	return scenario.Sequence(b.customerIsDenied, b.policyMatchesTooMuch, b.redisIsUnavailable, b.replicaLags, b.commandsFailPlainly)(ctx)
}

// connect forwards a port to each replica.
func (b *badDays) connect(ctx context.Context) error {
	pods, err := b.Quietly(ctx, "", "kubectl", "-n", scenario.System, "get", "pods", "-l", defaultPods, "-o", "jsonpath={.items[*].metadata.name}")
	if err != nil {
		return err
	}
	for pod := range strings.FieldsSeq(pods) {
		f, err := b.Forward(ctx, "pod/"+pod, 8080)
		if err != nil {
			return err
		}
		b.replicas, b.pods = append(b.replicas, f), append(b.pods, pod)
	}
	if len(b.replicas) != 2 {
		return fmt.Errorf("the Limiter has the pods %q, want 2", pods)
	}
	return nil
}

func (b *badDays) disconnect() {
	for _, f := range b.replicas {
		_ = f.Stop() // the step ends
	}
	b.replicas, b.pods = nil, nil
}

// decision is the answer of a replica.
type decision struct {
	status int
	Source string `json:"source"`
}

// request sends a request of the customer to a replica.
func (b *badDays) request(ctx context.Context, replica int, path string) (d decision, err error) {
	body, err := json.Marshal(map[string]any{
		"domain": scenario.Support, "method": "GET", "path": path, "headers": map[string]string{"x-tenant-id": customer},
	})
	if err != nil {
		return d, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+b.replicas[replica].Address+"/v1/check", bytes.NewReader(body))
	if err != nil {
		return d, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return d, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err == nil {
		err = json.Unmarshal(text, &d)
	}
	d.status = response.StatusCode
	return d, err
}

// exhaust sends requests until each replica denies, and from the source.
func (b *badDays) exhaust(ctx context.Context, source string) error {
	for i := range b.replicas {
		_, err := scenario.Await(ctx, 30*time.Second, func(ctx context.Context) error {
			d, err := b.request(ctx, i, "/")
			if err == nil && (d.status != http.StatusTooManyRequests || d.Source != source && d.Source != "cache") {
				err = fmt.Errorf("replica %d answers %+v", i, d)
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// allReplicas checks that each replica answers one request with the status within the time that a command may need to take effect.
func (b *badDays) allReplicas(ctx context.Context, since time.Time, what string, status int) {
	for i := range b.replicas {
		b.WithinSince(ctx, since, effectTime, fmt.Sprintf("%s: replica %d answers %d", what, i, status), func(ctx context.Context) error {
			d, err := b.request(ctx, i, "/")
			if err == nil && d.status != status {
				err = fmt.Errorf("it answers %d", d.status)
			}
			return err
		})
	}
}

// show runs a command of weir, and reports what it prints. The command must succeed, or fail, and print the texts.
func (b *badDays) show(ctx context.Context, succeeds bool, texts []string, args ...string) (stdout string, ended time.Time) {
	b.Logf("$ kubectl weir %s", strings.Join(quoted(args), " "))
	stdout, err := b.Quietly(ctx, "", append([]string{b.Options.Plugin}, args...)...)
	ended = time.Now()
	printed := stdout
	if err != nil {
		printed += err.Error()
	}
	for line := range strings.Lines(printed) {
		b.Logf("  %s", strings.TrimRight(line, "\n"))
	}
	b.Expect((err == nil) == succeeds, "weir %q: %v", args, err)
	for _, text := range texts {
		b.Expect(strings.Contains(printed, text), "weir %q does not print %q", args, text)
	}
	return stdout, ended
}

func quoted(args []string) []string {
	shown := make([]string, len(args))
	for i, arg := range args {
		if shown[i] = arg; strings.Contains(arg, " ") {
			shown[i] = "'" + arg + "'"
		}
	}
	return shown
}

// explained returns the arguments that explain a request of the customer.
func explained(path string) []string {
	return []string{"explain", "--domain", scenario.Support, "--path", path, "-H", "x-tenant-id: " + customer}
}

// customerIsDenied names the policy that denies a customer, lets them pass with a bypass and with a reset, and finds the records of both.
func (b *badDays) customerIsDenied(ctx context.Context) error {
	b.Logf("A customer is denied")
	if err := b.exhaust(ctx, "redis"); err != nil {
		return err
	}
	of := scenario.Support + "/" + dailyPolicy
	b.show(ctx, false, []string{"Denied by " + of}, explained("/search")...)
	name, ended := b.show(ctx, true, nil, "bypass", of, "--identifier", customer, "--for", "30m", "--reason", "INC-1: import runs", "-o", "name")
	b.allReplicas(ctx, ended, "bypass", http.StatusOK)
	name = strings.TrimSpace(name)
	b.show(ctx, true, []string{"Bypassed", name}, explained("/search")...)
	b.show(ctx, true, []string{name, "2/2"}, "bypass", "list")
	status, _ := b.Quietly(ctx, "", b.Options.Plugin, "status") // it can have problems that belong to the samples
	b.Expect(strings.Contains(status, name), "weir status does not list the bypass:\n%s", status)
	_, ended = b.show(ctx, true, []string{"ended by"}, "bypass", "end", name)
	b.allReplicas(ctx, ended, "the bypass has ended", http.StatusTooManyRequests)
	_, ended = b.show(ctx, true, []string{of}, "counters", "reset", customer, "--policy", of, "--reason", "INC-1: import ran twice")
	b.allReplicas(ctx, ended, "reset", http.StatusOK)
	return b.recorded(ctx, name)
}

// recorded checks the events of the policy and the log of the operator.
func (b *badDays) recorded(ctx context.Context, name string) error {
	events, err := b.Pipe(ctx, "", "kubectl", "-n", scenario.Support, "get", "events.events.k8s.io", "--sort-by=.eventTime",
		`-o=jsonpath={range .items[*]}{.type} {.reason} {.note}{"\n"}{end}`)
	if err != nil {
		return err
	}
	for line := range strings.Lines(events) {
		b.Logf("  %s", strings.TrimRight(line, "\n"))
	}
	reset := fmt.Sprintf("reset the counters of identifier %q", customer)
	for _, text := range []string{"Accepted", "Programmed", "pass for 30m0s with " + name, "ended " + strconv.Quote(name), reset, "INC-1: import ran twice"} {
		b.Expect(strings.Contains(events, text), "no event has %q", text)
	}
	log, err := b.Quietly(ctx, "", "kubectl", "-n", scenario.System, "logs", "-l", "app.kubernetes.io/component=operator", "--tail=-1")
	if err != nil {
		return err
	}
	for _, text := range []string{name, "counters reset"} {
		b.Expect(strings.Contains(log, text), "the log of the operator does not have %q", text)
	}
	return nil
}

// policyMatchesTooMuch finds the policy that denies requests that it should not match, and makes it harmless.
func (b *badDays) policyMatchesTooMuch(ctx context.Context) error {
	b.Logf("A policy matches more than intended")
	wide := scenario.Policy(scenario.Support, exportPolicy, 1, "24h")
	wide.Spec.Match.HTTP.Paths = []v1alpha1.PathMatch{{Type: "PathPrefix", Value: "/"}} // should be /export
	if err := b.CreateAll(ctx, wide); err != nil {
		return err
	}
	if _, err := scenario.Await(ctx, 30*time.Second, b.HasCondition(wide, scenario.Ready("Programmed"))); err != nil {
		return err
	}
	if _, err := scenario.Await(ctx, 10*time.Second, b.answers("/search", http.StatusTooManyRequests)); err != nil {
		return err
	}
	of := scenario.Support + "/" + exportPolicy
	b.show(ctx, false, []string{"Denied by " + of}, explained("/search")...)
	edit := func(what string, set func(*v1alpha1.RateLimitPolicySpec)) error {
		b.Logf("$ kubectl -n %s edit wrlp %s   # %s", scenario.Support, exportPolicy, what)
		p := &v1alpha1.RateLimitPolicy{ObjectMeta: wide.ObjectMeta}
		if err := scenario.Change(ctx, b.Scenario, p, func(p *v1alpha1.RateLimitPolicy) { set(&p.Spec) }); err != nil {
			return err
		}
		_, err := scenario.Await(ctx, 10*time.Second, b.HasCondition(p, scenario.Ready("Programmed")))
		return err
	}
	if err := edit("enforcement: Shadow", func(s *v1alpha1.RateLimitPolicySpec) { s.Enforcement = v1alpha1.EnforcementShadow }); err != nil {
		return err
	}
	if _, err := scenario.Await(ctx, effectTime, b.answers("/search", http.StatusOK)); err != nil {
		return err
	}
	b.show(ctx, true, []string{of}, "top", "--once")
	err := edit("paths: /export, enforcement: Enforce", func(s *v1alpha1.RateLimitPolicySpec) {
		s.Enforcement, s.Match.HTTP.Paths[0].Value = v1alpha1.EnforcementEnforce, "/export"
	})
	if err != nil {
		return err
	}
	b.show(ctx, true, []string{"NoMatch", "path is"}, explained("/search")...)
	return client.IgnoreNotFound(b.Delete(ctx, wide))
}

// answers checks the status of the first replica for a path.
func (b *badDays) answers(path string, status int) scenario.Action {
	return func(ctx context.Context) error {
		d, err := b.request(ctx, 0, path)
		if err == nil && d.status != status {
			err = fmt.Errorf("%s is answered with %d, want %d", path, d.status, status)
		}
		return err
	}
}

// redisIsUnavailable resets a counter and creates a bypass during an outage. What was admitted before the reset must not count after it.
func (b *badDays) redisIsUnavailable(ctx context.Context) error {
	b.Logf("Redis is unavailable")
	of := scenario.Support + "/" + dailyPolicy
	if err := b.exhaust(ctx, "redis"); err != nil {
		return err
	}
	if err := b.replicasShareLimits(ctx); err != nil {
		return err
	}
	if err := b.Run(ctx, "kubectl", "-n", scenario.System, "scale", "deployment/redis", "--replicas=0"); err != nil {
		return err
	}
	b.Within(ctx, 20*time.Second, "weir status reports the outage", func(ctx context.Context) error {
		status, _ := b.Quietly(ctx, "", b.Options.Plugin, "status") // its exit status reports problems
		if !strings.Contains(status, "StoreUnreachable") && !strings.Contains(status, "LocalMode") {
			return errors.New(status)
		}
		return nil
	})
	b.show(ctx, false, []string{"redis-down"}, "status")
	if err := b.exhaust(ctx, "local"); err != nil {
		return err
	}
	shares := fmt.Sprintf("%d per 24h  %d     0 ", dailyLimit, dailyLimit) // of both replicas
	b.show(ctx, true, []string{"local share", shares}, "counters", "get", customer, "--policy", of)
	_, ended := b.show(ctx, true, nil, "counters", "reset", customer, "--policy", of, "--reason", "INC-2: outage of Redis")
	b.allReplicas(ctx, ended, "reset of each share", http.StatusOK)
	if err := b.exhaust(ctx, "local"); err != nil {
		return err
	}
	_, ended = b.show(ctx, true, []string{"2/2"}, "bypass", of, "--identifier", customer, "--for", "5m", "--reason", "INC-2: outage of Redis")
	b.allReplicas(ctx, ended, "bypass during the outage", http.StatusOK)
	_, ended = b.show(ctx, true, nil, "counters", "reset", customer, "--policy", of, "--reason", "INC-2: before Redis returns")
	if err := scenario.Sequence(
		b.Command("kubectl", "-n", scenario.System, "scale", "deployment/redis", "--replicas=1"),
		scenario.WaitUntil(b.RolledOut(scenario.System, scenario.RedisPods)),
		scenario.WaitUntil(b.limiterIsHealthy),
		scenario.WaitUntil(b.countersAreInRedis),
	)(ctx); err != nil {
		return err
	}
	b.Logf("Redis was unavailable for %v after the reset", time.Since(ended).Round(time.Second))
	stdout, _ := b.show(ctx, true, nil, "counters", "get", customer, "--policy", of)
	b.Expect(!strings.Contains(stdout, of), "units from before the reset were reported to Redis:\n%s", stdout)
	b.show(ctx, true, []string{"2/2", "INC-2"}, "bypass", "list")
	return nil
}

// countersAreInRedis checks that no replica reports its share any more. The operator can reach Redis before the replicas do.
func (b *badDays) countersAreInRedis(ctx context.Context) error {
	text, err := b.Quietly(ctx, "", b.Options.Plugin, "counters", "get", customer, "--policy", scenario.Support+"/"+dailyPolicy)
	if err == nil && strings.Contains(text, "local share") {
		err = errors.New(text)
	}
	return err
}

// limiterIsHealthy checks that the Limiter does not report an outage any more.
func (b *badDays) limiterIsHealthy(ctx context.Context) error {
	return b.LacksCondition(scenario.LimiterNamed(scenario.System, "default"), v1alpha1.ConditionDegraded)(ctx)
}
