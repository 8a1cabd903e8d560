// Package policytest runs tests of policies, which are YAML files: requests at times, and what is expected of the decision. Decisions come from the
// compiler, the matcher, the engine and the counters of a standalone limiter, with a clock that the test sets.
package policytest

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/weir-dev/weir/cmd/internal/cli/explain"
	"github.com/weir-dev/weir/internal/policyfile"
	"github.com/weir-dev/weir/limiter/admin"
)

// The kind of a file with tests.
const (
	APIVersion = "cli.weir.dev/v1alpha1"
	Kind       = "PolicyTest"
)

// document is a file with tests.
type document struct {
	APIVersion string         `json:"apiVersion"`
	Kind       string         `json:"kind"`
	Metadata   map[string]any `json:"metadata"` // not read
	// Policies are the files and directories with the policies, relative to the file. Without any, it is the directory of the file.
	Policies []string `json:"policies"`
	// Limiter in Policies whose identity table applies, as NAMESPACE/NAME, needed if several differ.
	Limiter string `json:"limiter"`
	// Namespaces have the labels and annotations that policies for writes to the Kubernetes API read.
	Namespaces []namespace `json:"namespaces"`
	// Start is the time at which each test begins. Defaults to 2026-01-01T00:00:00Z, which is the start of a window of each length up to a day.
	Start *time.Time `json:"start"`
	Tests []test     `json:"tests"`
}

// namespace is what policies for writes read of a namespace.
type namespace struct {
	Name        string            `json:"name"        required:"true"`
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
}

// test is a sequence of steps on new counters. A test without steps is a single step.
type test struct {
	step

	Name  string `json:"name"`
	Steps []step `json:"steps"`
}

// step sends a request once or several times.
type step struct {
	// Request is a request in the fields of POST /v1/check. In a step, it is merged into that of the test.
	Request request `json:"request"`
	// Write is a write to the Kubernetes API, in place of a request. In a step, it is merged into that of the test.
	Write write `json:"write"`
	// At is when the first request is sent, from the start of the test. Defaults to the time of the previous step.
	At *duration `json:"at"`
	// Repeat is how often the request is sent. Defaults to 1.
	Repeat *int `json:"repeat"`
	// Every is the time between two requests.
	Every duration `json:"every"`
	Want  *want    `json:"want"`
}

// want is what is expected of a step. Fields that are absent are not compared. All but Allowed are about its last request.
type want struct {
	// Allowed is how many of the requests are allowed.
	Allowed *int `json:"allowed"`
	// Status of the response: 200, or that of a denial.
	Status *int `json:"status"`
	// RetryAfter as in the header Retry-After: rounded up to seconds.
	RetryAfter *duration `json:"retryAfter"`
	// Delay is how long an allowed request waits under a LeakyBucket.
	Delay *duration `json:"delay"`
	// DecidedBy is the policy that decides.
	DecidedBy *string `json:"decidedBy"`
	// Policies lists every policy that counts the request or has an unlimited tier for it. Others can be listed with their outcome.
	Policies *[]wantPolicy `json:"policies"`
}

// wantPolicy is what is expected of a policy. Fields that are absent are not compared.
type wantPolicy struct {
	// Name of the policy, with or without its namespace; _cluster/NAME of a ClusterRateLimitPolicy. With several rates, the strictest rate is compared, or the
	// one after a colon: tenant:1d.
	Name string `json:"name"`
	// Outcome as in weir explain: Allows, Denies, Unlimited, NoMatch or Replaced.
	Outcome    *admin.Outcome `json:"outcome"    values:"Allows,Denies,Unlimited,NoMatch,Replaced,Undecided,LeftOut"`
	Tier       *string        `json:"tier"`
	Cost       *int64         `json:"cost"`
	Identifier *string        `json:"identifier"`
	Limit      *int64         `json:"limit"`
	// Remaining units after the request.
	Remaining *int64 `json:"remaining"`
}

// request is a request in the fields of POST /v1/check.
type request map[string]any

// Structure returns the fields of a request.
func (request) Structure() any { return requestFields{} }

// requestFields are the fields of a request. In POST /v1/check, clients can cause values of other types, which are left out; in a test they are mistakes.
type requestFields struct {
	Domain      string              `json:"domain"`
	Method      string              `json:"method"`
	Host        string              `json:"host"`
	Path        string              `json:"path"`
	Query       map[string]texts    `json:"query"`
	Headers     map[string]texts    `json:"headers"`
	ClientIP    string              `json:"clientIP"`
	Claims      map[string]any      `json:"claims"`
	Descriptors [][]descriptorEntry `json:"descriptors"`
	Cost        int64               `json:"cost"        min:"1"`
	Peek        bool                `json:"peek"`
	Override    *struct {
		Limit       int64 `json:"limit"       min:"1"`
		WindowMs    int64 `json:"windowMs"    min:"1000"`
		WithoutCost bool  `json:"withoutCost"`
	} `json:"override"`
}

// descriptorEntry is an entry of an Envoy descriptor.
type descriptorEntry struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

// texts is the value of a header or of a parameter: a text or a list of texts.
type texts struct{}

// UnmarshalJSON rejects other values.
func (*texts) UnmarshalJSON(text []byte) error {
	var one string
	var several []string
	if json.Unmarshal(text, &one) != nil && json.Unmarshal(text, &several) != nil {
		return fmt.Errorf("must be a text or a list of texts, and is %s; write it in quotes", text)
	}
	return nil
}

// write is a write to the Kubernetes API.
type write map[string]any

// Structure returns the fields of a write.
func (write) Structure() any { return writeFields{} }

// writeFields are the fields of a write.
type writeFields struct {
	User        string         `json:"user"`
	Groups      []string       `json:"groups"`
	Operation   string         `json:"operation"`
	Namespace   string         `json:"namespace"`
	Resource    string         `json:"resource"`
	Subresource string         `json:"subresource"`
	Object      map[string]any `json:"object"`
}

// duration is a length of time: "0s", "250ms", "1m30s" or "1d".
type duration time.Duration

// UnmarshalJSON rejects numbers without a unit.
func (d *duration) UnmarshalJSON(text []byte) error {
	var given string
	if err := json.Unmarshal(text, &given); err != nil {
		if string(text) == "0" {
			return nil
		}
		return fmt.Errorf("must be a length of time such as 90s, 1h30m or 1d, and is %s", text)
	}
	days := time.Duration(0)
	rest := given
	if before, after, has := strings.Cut(given, "d"); has {
		n, err := time.ParseDuration(before + "h")
		if err != nil {
			return fmt.Errorf("must be a length of time such as 90s, 1h30m or 1d, and is %q", given)
		}
		days, rest = n*24, after
	}
	parsed := time.Duration(0)
	if rest != "" || days == 0 {
		var err error
		if parsed, err = time.ParseDuration(rest); err != nil {
			return fmt.Errorf("must be a length of time such as 90s, 1h30m or 1d, and is %q", given)
		}
	}
	if parsed += days; parsed < 0 {
		return fmt.Errorf("must not be negative, and is %q", given)
	}
	*d = duration(parsed)
	return nil
}

// Suite is a document with tests.
type Suite struct {
	File string

	document

	source *policyfile.Document
	lines  []int // of the tests
}

// Find returns the suites in files. It skips documents of other kinds. A document that cannot be read, and may be one with tests, is an error.
func Find(files []policyfile.File) (suites []*Suite, err error) {
	for _, file := range files {
		for _, d := range policyfile.Documents(file) {
			switch message := d.MeantKind(); {
			case message != "":
				return nil, errors.New(message)
			case d.Invalid != nil && (strings.Contains(d.Text, Kind) || strings.Contains(d.Text, APIVersion)):
				return nil, errors.New(d.Invalid.String())
			case d.Invalid != nil || d.Kind != Kind:
				continue
			}
			s := &Suite{File: file.Name, source: d}
			if err := s.parse(); err != nil {
				return nil, err
			}
			suites = append(suites, s)
		}
	}
	return suites, nil
}

// parse parses the document.
func (s *Suite) parse() error {
	if problems := s.source.Decode(&s.document); len(problems) > 0 {
		return policyfile.Errors(problems)
	}
	if len(s.Tests) == 0 {
		return errors.New(s.source.Problem("tests", "the list tests is missing or empty").String())
	}
	for i := range s.Tests {
		field := fmt.Sprintf("tests[%d]", i)
		s.lines = append(s.lines, s.source.Problem(field, "").Line)
		if at, err := s.Tests[i].validate(); err != nil {
			return errors.New(s.source.Problem(strings.TrimSuffix(field+"."+at, "."), fmt.Sprintf("test %q: %s", s.Tests[i].Name, err)).String())
		}
	}
	return nil
}

// validate rejects a test that checks nothing, and completes its steps. The field is where an error is, below the test.
func (t *test) validate() (field string, err error) {
	if t.Name == "" {
		return "", errors.New("a test needs a name")
	}
	place := func(i int, field string) string { return fmt.Sprintf("steps[%d].%s", i, field) }
	switch {
	case len(t.Steps) == 0:
		t.Steps = []step{t.step}
		place = func(_ int, field string) string { return field }
	case t.Want != nil || t.At != nil || t.Repeat != nil || t.Every != 0:
		return "", errors.New("at, repeat, every and want of a test with steps are in its steps")
	default:
		for i := range t.Steps {
			t.Steps[i].Request, t.Steps[i].Write = merge(t.Request, t.Steps[i].Request), merge(t.Write, t.Steps[i].Write)
		}
	}
	checks := false
	for i := range t.Steps {
		s := &t.Steps[i]
		switch {
		case s.Request == nil && s.Write == nil:
			return place(i, ""), errors.New("needs a request or a write")
		case s.Request != nil && s.Write != nil:
			return place(i, ""), errors.New("has a request and a write: remove one of them")
		case s.Repeat != nil && (*s.Repeat < 1 || *s.Repeat > maxRepeat):
			return place(i, "repeat"), fmt.Errorf("repeat must be from 1 to %d, and is %d", maxRepeat, *s.Repeat)
		case s.Every != 0 && s.requests() == 1:
			return place(i, "every"), errors.New("every has no effect without repeat: set repeat, or remove every")
		case s.Want != nil && s.Want.Allowed != nil && (*s.Want.Allowed < 0 || *s.Want.Allowed > s.requests()):
			return place(i, "want.allowed"), fmt.Errorf("allowed must be from 0 to %d, the number of requests of the step, and is %d", s.requests(), *s.Want.Allowed)
		}
		checks = checks || s.Want != nil && *s.Want != (want{})
	}
	if !checks {
		return "", errors.New("no step has a want, so that the test checks nothing")
	}
	return "", nil
}

// requests returns how many requests the step sends.
func (s *step) requests() int {
	if s.Repeat == nil {
		return 1
	}
	return *s.Repeat
}

// maxRepeat bounds the requests of a step.
const maxRepeat = 10_000_000

// merge returns the fields of base with those of over, which replace values other than objects.
func merge[M ~map[string]any](base, over M) M {
	if base == nil {
		return over
	}
	merged := maps.Clone(base)
	for name, value := range over {
		inner, isObject := value.(map[string]any)
		if outer, has := merged[name].(map[string]any); has && isObject {
			value = merge(outer, inner)
		}
		merged[name] = value
	}
	return merged
}

// body returns the request as the body of POST /v1/check, or the write as an AdmissionReview.
func (s *step) body(domain string) ([]byte, error) {
	if s.Write == nil {
		request := s.Request
		if request["domain"] == nil {
			if domain == "" {
				return nil, errors.New("the request has no domain, and the policies are in several: set request.domain")
			}
			request = merge(request, map[string]any{"domain": domain})
		}
		return json.Marshal(request)
	}
	encoded, err := json.Marshal(s.Write)
	if err != nil {
		return nil, err
	}
	var w writeFields
	if err := json.Unmarshal(encoded, &w); err != nil {
		return nil, fmt.Errorf("write: %w", err)
	}
	if w.User == "" || w.Object == nil {
		return nil, errors.New("a write needs a user and an object")
	}
	object, err := json.Marshal(w.Object)
	if err != nil {
		return nil, err
	}
	operation := "CREATE"
	if w.Operation != "" {
		operation = strings.ToUpper(w.Operation)
	}
	return explain.Write{
		Operation: operation, Namespace: w.Namespace, Resource: w.Resource, Subresource: w.Subresource, User: w.User, Groups: w.Groups,
	}.Review(object)
}
