package policytest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-dev/weir/cmd/internal/cli/explain"
	"github.com/weir-dev/weir/cmd/internal/cli/policyset"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/policyfile"
	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/admin"
	"github.com/weir-dev/weir/limiter/decision"
	"github.com/weir-dev/weir/limiter/engine"
	"github.com/weir-dev/weir/limiter/exempt"
	"github.com/weir-dev/weir/limiter/memstore"
	"github.com/weir-dev/weir/limiter/reply"
	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/limiter/rules/matching"
	"github.com/weir-dev/weir/limiter/rules/policyname"
	"github.com/weir-dev/weir/limiter/server"
	"github.com/weir-dev/weir/webhook/throttle"
)

// Result is the result of a test.
type Result struct {
	File string `json:"file"`
	Line int    `json:"line"`
	Name string `json:"name"`
	// Failures are empty if the test passes.
	Failures []string `json:"failures,omitempty"`
	// Explanation is why the last request of the first failed step was decided so, as weir explain prints it.
	Explanation string  `json:"explanation,omitempty"`
	Seconds     float64 `json:"seconds"`
}

// Passed reports whether the test passes.
func (r *Result) Passed() bool { return len(r.Failures) == 0 }

// Run runs the tests of a suite whose names a filter accepts. It returns an error if the policies cannot be read, or if one of them is invalid.
func (s *Suite) Run(ctx context.Context, accepts func(name string) bool) ([]Result, error) {
	set, err := s.compile()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.File, err)
	}
	var results []Result
	for i := range s.Tests {
		t := &s.Tests[i]
		if !accepts(t.Name) {
			continue
		}
		began := time.Now()
		r := Result{File: s.File, Line: s.lines[i], Name: t.Name}
		run, err := newRun(set, s.Start)
		if err == nil {
			err = run.test(ctx, t, &r)
		}
		if err != nil {
			return nil, fmt.Errorf("%s:%d: test %q: %w", s.File, s.lines[i], t.Name, err)
		}
		r.Seconds = time.Since(began).Seconds()
		results = append(results, r)
	}
	return results, nil
}

// compile compiles the policies of the suite.
func (s *Suite) compile() (*policyset.Set, error) {
	paths := s.Policies
	if len(paths) == 0 {
		paths = []string{"."}
	}
	at := slices.Clone(paths)
	for i, path := range at {
		if !filepath.IsAbs(path) {
			at[i] = filepath.Join(filepath.Dir(s.File), path)
		}
	}
	files, err := policyfile.Read(nil, at...)
	if err != nil {
		return nil, err
	}
	set, err := policyset.Compile(files, s.Limiter)
	switch {
	case err != nil:
		return nil, err
	case len(set.Problems) > 0:
		return nil, fmt.Errorf("a policy is invalid: %s", set.Problems[0])
	case len(set.Warnings) > 0:
		return nil, fmt.Errorf("set limiter: %s", set.Warnings[0])
	case set.Policies == 0:
		return nil, fmt.Errorf("there is no policy in %s", strings.Join(paths, ", "))
	}
	if len(s.Namespaces) > 0 {
		policies := set.Valid()
		for _, n := range s.Namespaces {
			policies.Namespaces = append(policies.Namespaces, compile.Namespace(n))
		}
		set.Rules = policies.Compile(set.Identity).Set
	}
	return set, nil
}

// run is a standalone limiter with a clock that a test sets.
type run struct {
	engine    *engine.Engine
	explainer *admin.Explainer
	start     time.Time
	now       time.Time
	domain    string // of requests without one, "" if the policies have several
}

func newRun(set *policyset.Set, start *time.Time) (*run, error) {
	r := &run{start: time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC), domain: domainOf(set)}
	if start != nil {
		r.start = *start
	}
	r.now = r.start
	clock := func() time.Time { return r.now }
	_, revision := rules.Encode(set.Rules)
	index, err := matching.NewIndex(set.Rules, revision, "weir:", matching.WithHashKey(set.HashKey))
	if err != nil {
		return nil, err
	}
	settings, err := throttle.NewSettings(throttle.Options{Exempt: exempt.With("", exempt.Lists{})})
	if err != nil {
		return nil, err
	}
	r.engine = engine.New(memstore.New(clock), engine.SourceMemory, engine.NewMetrics(prometheus.NewRegistry()), engine.WithClock(clock))
	r.engine.Swap(index)
	r.explainer = &admin.Explainer{Engine: r.engine, ReadWrite: settings.Read}
	return r, nil
}

// domainOf returns the only namespace of the policies, or "".
func domainOf(set *policyset.Set) string {
	domain := ""
	for i := range set.Rules.Rules {
		namespace, _ := policyname.Split(set.Rules.Rules[i].PolicyName())
		if namespace == policyname.Cluster {
			continue
		}
		if domain != "" && domain != namespace {
			return ""
		}
		domain = namespace
	}
	return domain
}

// test runs the steps of a test. An error is one of the test itself.
func (r *run) test(ctx context.Context, t *test, result *Result) error {
	for i := range t.Steps {
		s := &t.Steps[i]
		if s.At != nil {
			at := r.start.Add(time.Duration(*s.At))
			if at.Before(r.now) {
				return fmt.Errorf("step %d: at %v is before the previous step, which ends at %v", i+1, time.Duration(*s.At), r.now.Sub(r.start))
			}
			r.now = at
		}
		body, err := s.body(r.domain)
		if err != nil {
			return fmt.Errorf("step %d: %w", i+1, err)
		}
		failures, explanation, err := r.step(ctx, s, body)
		if err != nil {
			return fmt.Errorf("step %d: %w", i+1, err)
		}
		for _, failure := range failures {
			result.Failures = append(result.Failures, s.describe(i, len(t.Steps), r.now.Sub(r.start))+failure)
		}
		if len(failures) > 0 && result.Explanation == "" {
			result.Explanation = explanation
		}
	}
	return nil
}

// describe returns the beginning of the messages about a step.
func (s *step) describe(i, n int, at time.Duration) string {
	if n == 1 {
		return ""
	}
	return fmt.Sprintf("step %d, which ends at %v: ", i+1, at)
}

// outcome is what was decided about the requests of a step.
type outcome struct {
	allowed int
	last    decision.Answer
	exempt  bool
	before  admin.Explanation // of the last request, before it is counted
}

// step sends the requests of a step.
func (r *run) step(ctx context.Context, s *step, body []byte) (failures []string, explanation string, err error) {
	check, isExempt, bad := r.read(body, s.Write != nil)
	if bad != nil {
		return nil, "", errors.New(bad.Detail)
	}
	o := outcome{exempt: isExempt}
	for n := range s.requests() {
		if n > 0 {
			r.now = r.now.Add(time.Duration(s.Every))
		}
		if n == s.requests()-1 {
			if o.before, bad = r.explainer.Explain(ctx, body, false); bad != nil {
				return nil, "", errors.New(bad.Detail)
			}
		}
		if isExempt {
			o.allowed++
			continue
		}
		copied := check
		if o.last, err = r.engine.Check(ctx, &copied); err != nil {
			return nil, "", err
		}
		if o.last.Allowed {
			o.allowed++
		}
	}
	if s.Want != nil {
		failures = s.Want.compare(&o, s.requests())
	}
	if len(failures) == 0 {
		return nil, "", nil
	}
	var text bytes.Buffer
	text.WriteString("The last request, before it is counted: " + shorten(body) + "\n")
	if err := explain.Print(&text, explain.Table, &o.before); err != nil {
		return nil, "", err
	}
	why, _, _ := strings.Cut(text.String(), "\nRevision: ")
	return failures, why, nil
}

// maxBody is how much of a request a failure has, in bytes.
const maxBody = 500

func shorten(body []byte) string {
	var compact bytes.Buffer
	if json.Compact(&compact, body) == nil {
		body = compact.Bytes()
	}
	if len(body) <= maxBody {
		return string(body)
	}
	return strings.ToValidUTF8(string(body[:maxBody]), "") + "…"
}

func (r *run) read(body []byte, isWrite bool) (c engine.Check, isExempt bool, bad *reply.Problem) {
	if !isWrite {
		c, bad = server.DecodeCheck(body)
		return c, false, bad
	}
	c = engine.Check{Cost: 1, NoDelay: true} // as the admission endpoint
	c.Request, isExempt, bad = r.explainer.ReadWrite(body)
	return c, isExempt, bad
}

// compare returns what differs.
func (w *want) compare(o *outcome, sent int) (failures []string) {
	fail := func(field string, want, got any) {
		failures = append(failures, fmt.Sprintf("%s: want %v, got %v", field, want, got))
	}
	if w.Allowed != nil && *w.Allowed != o.allowed {
		fail("allowed", *w.Allowed, fmt.Sprintf("%d of %d", o.allowed, sent))
	}
	if got := o.status(); w.Status != nil && *w.Status != got {
		fail("status", *w.Status, got)
	}
	if got, exists := o.retryAfter(); w.RetryAfter != nil && (!exists || seconds(time.Duration(*w.RetryAfter)) != seconds(got)) {
		fail("retryAfter", seconds(time.Duration(*w.RetryAfter)), describeRetry(got, exists))
	}
	if w.Delay != nil && time.Duration(*w.Delay) != o.last.Delay {
		fail("delay", time.Duration(*w.Delay), o.last.Delay)
	}
	if w.DecidedBy != nil {
		got := ""
		if top := o.last.Strictest(); top != nil {
			got = top.Rule.Policy
		}
		switch {
		case isNamed(got, *w.DecidedBy):
		case *w.DecidedBy != "" && o.find(*w.DecidedBy) == nil:
			fail("decidedBy", *w.DecidedBy, fmt.Sprintf("%s; there is no policy %s for the domain of the request", quoted(got), *w.DecidedBy))
		default:
			fail("decidedBy", quoted(*w.DecidedBy), quoted(got))
		}
	}
	if w.Policies != nil {
		failures = append(failures, o.comparePolicies(*w.Policies)...)
	}
	return failures
}

// status returns the status of the response to the last request.
func (o *outcome) status() int {
	switch denial := o.last.Denial(); {
	case o.exempt || o.last.Allowed:
		return http.StatusOK
	case denial != nil:
		return denial.StatusCode()
	default:
		return http.StatusTooManyRequests
	}
}

// retryAfter returns the shortest wait after which the last request would be allowed. It does not exist if no wait suffices.
func (o *outcome) retryAfter() (time.Duration, bool) {
	top := o.last.Strictest()
	if o.exempt || o.last.Allowed || top == nil {
		return 0, true
	}
	return top.RetryAfter, top.RetryAfter != limiter.Never
}

func describeRetry(d time.Duration, exists bool) string {
	if !exists {
		return "no Retry-After, because no retry can succeed"
	}
	return seconds(d).String()
}

// seconds rounds up to seconds, as the header Retry-After does.
func seconds(d time.Duration) time.Duration {
	return (d + time.Second - 1).Truncate(time.Second)
}

func quoted(name string) string {
	if name == "" {
		return "no policy"
	}
	return name
}

// isNamed reports whether a rule, "shop/tenant" or "shop/tenant:1d", has a name that can leave out the namespace and the rate.
func isNamed(rule, name string) bool {
	if name == "" || rule == "" {
		return name == rule
	}
	_, short := policyname.Split(rule)
	return slices.Contains([]string{rule, short, rules.WithoutRate(rule), rules.WithoutRate(short)}, name)
}

// counts reports whether a policy is one that want.policies must list.
func counts(p *admin.Policy) bool {
	return p.Outcome == admin.Allows || p.Outcome == admin.Denies || p.Outcome == admin.Unlimited
}

// comparePolicies compares the policies of the last request.
func (o *outcome) comparePolicies(wanted []wantPolicy) (failures []string) {
	listed := map[string]bool{}
	for i := range wanted {
		w := &wanted[i]
		p := o.find(w.Name)
		if p == nil {
			failures = append(failures, fmt.Sprintf("policies: there is no policy %s for the domain of the request", w.Name))
			continue
		}
		listed[rules.WithoutRate(p.Policy)] = true
		if !counts(p) && w.Outcome == nil {
			failures = append(failures, fmt.Sprintf("policies: %s does not count the request: %s", w.Name, p.Reason))
			continue
		}
		failures = append(failures, o.comparePolicy(w, p)...)
	}
	for i := range o.before.Policies {
		if p := &o.before.Policies[i]; counts(p) && !listed[rules.WithoutRate(p.Policy)] {
			listed[rules.WithoutRate(p.Policy)] = true
			failures = append(failures, fmt.Sprintf("policies: %s counts the request, and want.policies does not list it", p.Policy))
		}
	}
	return failures
}

// find returns the policy of the explanation with a name: of several rates, the strictest one.
func (o *outcome) find(name string) (found *admin.Policy) {
	for _, r := range o.last.Results { // the strictest first
		for i := range o.before.Policies {
			if p := &o.before.Policies[i]; p.Policy == r.Rule.Policy && isNamed(p.Policy, name) {
				return p
			}
		}
	}
	for i := range o.before.Policies {
		if p := &o.before.Policies[i]; isNamed(p.Policy, name) {
			return p
		}
	}
	return nil
}

func (o *outcome) comparePolicy(w *wantPolicy, p *admin.Policy) (failures []string) {
	charge := p.Charge
	if charge == nil {
		charge = &admin.Charge{}
	}
	var remaining int64
	for i := range o.last.Results {
		if o.last.Results[i].Rule.Policy == p.Policy {
			remaining = o.last.Results[i].Remaining
		}
	}
	add := func(text string) {
		if text != "" {
			failures = append(failures, fmt.Sprintf("policies: %s: %s", w.Name, text))
		}
	}
	add(different("outcome", w.Outcome, p.Outcome))
	add(different("tier", w.Tier, charge.Tier))
	add(different("cost", w.Cost, charge.Cost))
	add(different("identifier", w.Identifier, explain.Identifier(charge.Identifier, charge.Hashed)))
	add(different("limit", w.Limit, charge.Limit))
	add(different("remaining", w.Remaining, remaining))
	return failures
}

// different describes a value that is not the expected one, "" if it is or no value is expected.
func different[T comparable](field string, want *T, got T) string {
	if want == nil || *want == got {
		return ""
	}
	return fmt.Sprintf("%s: want %v, got %v", field, printable(*want), printable(got))
}

func printable(value any) any {
	if text, isText := value.(string); isText {
		return fmt.Sprintf("%q", text)
	}
	return value
}
