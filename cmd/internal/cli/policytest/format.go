// Package policytest runs tests of policies, which are YAML files: requests at times, and what is expected of the decision. Decisions come from the
// compiler, the matcher, the engine and the counters of a standalone limiter, with a clock that the test sets.
package policytest

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
	k8syaml "sigs.k8s.io/yaml"

	"github.com/weir-dev/weir/cmd/internal/cli/explain"
	"github.com/weir-dev/weir/internal/compile"
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
	Namespaces []compile.Namespace `json:"namespaces"`
	// Start is the time at which each test begins. Defaults to 2026-01-01T00:00:00Z, which is the start of a window of each length up to a day.
	Start *time.Time `json:"start"`
	Tests []test     `json:"tests"`
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
	Request map[string]any `json:"request"`
	// Write is a write to the Kubernetes API, in place of a request. In a step, it is merged into that of the test.
	Write map[string]any `json:"write"`
	// At is when the first request is sent, from the start of the test. Defaults to the time of the previous step.
	At *duration `json:"at"`
	// Repeat is how often the request is sent. Defaults to 1.
	Repeat int `json:"repeat"`
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
	Outcome    *admin.Outcome `json:"outcome"`
	Tier       *string        `json:"tier"`
	Cost       *int64         `json:"cost"`
	Identifier *string        `json:"identifier"`
	Limit      *int64         `json:"limit"`
	// Remaining units after the request.
	Remaining *int64 `json:"remaining"`
}

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
		return fmt.Errorf("a duration needs a unit: write %ss in place of %s", text, text)
	}
	days := time.Duration(0)
	rest := given
	if before, after, has := strings.Cut(given, "d"); has {
		n, err := time.ParseDuration(before + "h")
		if err != nil {
			return fmt.Errorf("%q is no duration: write for example 90s, 1h30m or 1d", given)
		}
		days, rest = n*24, after
	}
	parsed := time.Duration(0)
	if rest != "" || days == 0 {
		var err error
		if parsed, err = time.ParseDuration(rest); err != nil {
			return fmt.Errorf("%q is no duration: write for example 90s, 1h30m or 1d", given)
		}
	}
	if parsed += days; parsed < 0 {
		return fmt.Errorf("%q must not be negative", given)
	}
	*d = duration(parsed)
	return nil
}

// Suite is a file with tests.
type Suite struct {
	File string

	document

	lines []int // of the tests
}

// Find returns the suites in files. It skips documents of other kinds.
func Find(files []policyfile.File) (suites []*Suite, err error) {
	for _, file := range files {
		found, err := suitesOf(file)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file.Name, err)
		}
		suites = append(suites, found...)
	}
	return suites, nil
}

func suitesOf(file policyfile.File) (suites []*Suite, err error) {
	line := 0
	for _, text := range split(string(file.Content)) {
		var header struct {
			APIVersion string `json:"apiVersion"`
			Kind       string `json:"kind"`
		}
		if err := k8syaml.Unmarshal([]byte(text), &header); err == nil && header.Kind == Kind {
			if header.APIVersion != APIVersion {
				return nil, fmt.Errorf("line %d: apiVersion %q of a %s is unknown: write %s", line+1, header.APIVersion, Kind, APIVersion)
			}
			s, err := parse(file.Name, text, line)
			if err != nil {
				return nil, err
			}
			suites = append(suites, s)
		}
		line += strings.Count(text, "\n")
	}
	return suites, nil
}

// split splits a file at its document separators, which begin a part.
func split(content string) (parts []string) {
	begin, offset := 0, 0
	for line := range strings.Lines(content) {
		if strings.TrimSpace(line) == "---" && offset > begin {
			parts = append(parts, content[begin:offset])
			begin = offset
		}
		offset += len(line)
	}
	return append(parts, content[begin:])
}

// parse parses a document with tests. The line is the number of lines before it.
func parse(file, text string, line int) (*Suite, error) {
	s := &Suite{File: file}
	if err := k8syaml.UnmarshalStrict([]byte(text), &s.document); err != nil {
		message := strings.TrimPrefix(err.Error(), "error unmarshaling JSON: while decoding JSON: json: ")
		if field := unknownField.FindStringSubmatch(message); field != nil {
			if at := lineOfKey(text, field[1]); at > 0 {
				message = fmt.Sprintf("line %d: %s", line+at, message)
			}
		}
		return nil, errors.New(message)
	}
	if len(s.Tests) == 0 {
		return nil, fmt.Errorf("line %d: the list tests is missing or empty", line+1)
	}
	var node yaml.Node
	if err := yaml.Unmarshal([]byte(text), &node); err != nil {
		return nil, err
	}
	s.lines = linesOf(&node, line, len(s.Tests))
	for i := range s.Tests {
		if err := s.Tests[i].validate(); err != nil {
			return nil, fmt.Errorf("line %d: test %q: %w", s.lines[i], s.Tests[i].Name, err)
		}
	}
	return s, nil
}

// unknownField is the error of the strict decoder, which knows no line.
var unknownField = regexp.MustCompile(`^unknown field "([^"]+)"$`)

// lineOfKey returns the line of the first key with a name in a document, 0 without one.
func lineOfKey(text, name string) int {
	var node yaml.Node
	if yaml.Unmarshal([]byte(text), &node) != nil {
		return 0
	}
	var find func(*yaml.Node) int
	find = func(n *yaml.Node) int {
		for i, child := range n.Content {
			if n.Kind == yaml.MappingNode && i%2 == 0 && child.Value == name {
				return child.Line
			}
			if line := find(child); line > 0 {
				return line
			}
		}
		return 0
	}
	return find(&node)
}

// linesOf returns the lines of the tests of a document.
func linesOf(document *yaml.Node, before, n int) []int {
	lines := make([]int, n)
	for i := range lines {
		lines[i] = before + 1
	}
	if len(document.Content) == 0 {
		return lines
	}
	fields := document.Content[0].Content
	for i := 0; i+1 < len(fields); i += 2 {
		if fields[i].Value == "tests" {
			for j, item := range fields[i+1].Content[:min(n, len(fields[i+1].Content))] {
				lines[j] = before + item.Line
			}
		}
	}
	return lines
}

// validate rejects a test that checks nothing, and completes its steps.
func (t *test) validate() error {
	if t.Name == "" {
		return errors.New("a test needs a name")
	}
	switch {
	case len(t.Steps) == 0:
		t.Steps = []step{t.step}
	case t.Want != nil || t.At != nil || t.Repeat != 0 || t.Every != 0:
		return errors.New("at, repeat, every and want of a test with steps are in its steps")
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
			return fmt.Errorf("step %d needs a request or a write", i+1)
		case s.Request != nil && s.Write != nil:
			return fmt.Errorf("step %d has a request and a write: remove one of them", i+1)
		case s.Repeat < 0 || s.Repeat > maxRepeat:
			return fmt.Errorf("step %d: repeat must be from 1 to %d, and is %d", i+1, maxRepeat, s.Repeat)
		}
		s.Repeat = max(s.Repeat, 1)
		checks = checks || s.Want != nil && *s.Want != (want{})
	}
	if !checks {
		return errors.New("no step has a want, so that the test checks nothing")
	}
	return nil
}

// maxRepeat bounds the requests of a step.
const maxRepeat = 10_000_000

// merge returns the fields of base with those of over, which replace values other than objects.
func merge(base, over map[string]any) map[string]any {
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
	decoder := json.NewDecoder(strings.NewReader(string(encoded)))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&w); err != nil {
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
