// Package simulate decides the requests of invented clients on a simulated clock, with the code of limiters: replicas with their layers above counters
// in the place of Redis, which can become unavailable. It shows what a policy does in situations that no log has.
//
// A simulation needs no time of the machine and no network. The same scenario and seed give the same result.
package simulate

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"

	"sigs.k8s.io/yaml"

	"github.com/weir-dev/weir/internal/policyfile"
	"github.com/weir-dev/weir/limiter/rules"
)

// Bounds of scenarios. They keep a simulation within a minute and a gigabyte.
const (
	maxClients  = 100_000
	maxReplicas = 500
	maxVariants = 3
	maxRequests = 5_000_000
	maxDuration = 7 * 24 * time.Hour
)

// Scenario describes clients, and the limiters that decide their requests.
type Scenario struct {
	// Title and Description are for readers.
	Title       string `json:"title"       required:"true"`
	Description string `json:"description"`
	Seed        uint64 `json:"seed"`
	// Duration of the simulation. It begins at midnight UTC.
	Duration Duration `json:"duration" required:"true"`
	// Replicas of the limiter, 1 by default.
	Replicas int `json:"replicas" min:"1"`
	// Policies are rate-limit policies. Every variant has all of them.
	Policies []map[string]any `json:"policies" required:"true"`
	// Variants are compared with each other: 1 to 3.
	Variants []Variant `json:"variants"`
	Clients  []Clients `json:"clients"  required:"true"`
	// Outages of Redis.
	Outages []Outage `json:"outages"`
	// Scaling changes the number of replicas.
	Scaling []Scaling `json:"scaling"`
}

// Variant is a change of the policies.
type Variant struct {
	Name string `json:"name" required:"true"`
	// Spec replaces fields in the specs of all policies.
	Spec map[string]any `json:"spec"`

	set rules.Set
}

// Kind is how clients send requests.
type Kind string

// The kinds of clients.
const (
	// Steady clients send RequestsPerSecond each, at even intervals.
	Steady Kind = "Steady"
	// Random clients send RequestsPerSecond each on average, independently of what they have sent before.
	Random Kind = "Random"
	// Bursty clients send Burst requests at the same time, Every so often.
	Bursty Kind = "Bursty"
	// Rotating clients send RequestsPerSecond each, and every request has an address of its own.
	Rotating Kind = "Rotating"
)

// Retry is what a client does with a denial.
type Retry string

// What clients do with a denial.
const (
	Never      Retry = "Never"
	Fixed      Retry = "Fixed"      // tries again after RetryDelay
	RetryAfter Retry = "RetryAfter" // tries again after the Retry-After of the response, with up to RetryDelay added at random
)

// Clients are clients of one kind. Each has an address of its own.
type Clients struct {
	// Name of the clients. Those of another entry with the same name are the same clients.
	Name  string `json:"name"`
	Kind  Kind   `json:"kind"  required:"true" values:"Steady,Random,Bursty,Rotating"`
	Count int    `json:"count" min:"1"` // 1 by default
	// Shared gives all of them the same address.
	Shared            bool     `json:"shared"`
	RequestsPerSecond float64  `json:"requestsPerSecond"`
	Burst             int      `json:"burst"`
	Every             Duration `json:"every"`
	// From and To are when they send, from the beginning. By default it is the whole duration. The first burst is at From.
	From Duration `json:"from"`
	To   Duration `json:"to"`
	// Retry is Never by default. A request is tried again Retries times at most, 5 by default.
	Retry      Retry    `json:"retry"      values:"Never,Fixed,RetryAfter"`
	RetryDelay Duration `json:"retryDelay"`
	Retries    int      `json:"retries"    min:"1"`

	retriesAreSet bool
}

// Outage is a time during which no replica reaches Redis.
type Outage struct {
	From Duration `json:"from" required:"true"`
	To   Duration `json:"to"   required:"true"`
}

// Scaling is a change of the number of replicas.
type Scaling struct {
	At       Duration `json:"at"       required:"true"`
	Replicas int      `json:"replicas" min:"1"         required:"true"`
}

// Duration is a duration as in policies, for example 90s.
type Duration time.Duration

// UnmarshalJSON implements json.Unmarshaler.
func (d *Duration) UnmarshalJSON(text []byte) error {
	var name string
	if err := json.Unmarshal(text, &name); err != nil {
		return fmt.Errorf("must be a length of time such as 90s, 5m, 1h or 1d, and is %s", text)
	}
	days, isDays := strings.CutSuffix(name, "d")
	given := name
	if isDays { // alone, as in policies
		given = days + "h"
	}
	parsed, err := time.ParseDuration(given)
	if err != nil || parsed < 0 {
		return fmt.Errorf("must be a length of time such as 90s, 5m, 1h or 1d, and is %q", name)
	}
	if isDays {
		parsed *= 24
	}
	*d = Duration(parsed)
	return nil
}

// Compile compiles policies, each a document of YAML.
type Compile func(policies []byte) (rules.Set, error)

// Parse parses a scenario, and compiles its policies. The error names what is wrong, and where in the file.
func Parse(file policyfile.File, compile Compile) (*Scenario, error) {
	s := &Scenario{}
	documents := policyfile.Documents(file)
	switch {
	case len(documents) == 0:
		return nil, fmt.Errorf("%s: the file is empty", file.Name)
	case documents[0].Invalid != nil: // a scenario is no object of the Kubernetes API
		return nil, errors.New(strings.Replace(documents[0].Invalid.String(), "an object with apiVersion and kind", "an object with the fields of a scenario", 1))
	case len(documents) > 1:
		return nil, fmt.Errorf("%s: a scenario is one document, and there are %d", file.Name, len(documents))
	case documents[0].Kind != "":
		return nil, fmt.Errorf("%s: a scenario has no kind, and this is a %s: write it into the list policies of a scenario", file.Name, documents[0].Kind)
	}
	if problems := documents[0].Decode(s); len(problems) > 0 {
		return nil, policyfile.Errors(problems)
	}
	if err := s.complete(compile); err != nil {
		return nil, fmt.Errorf("%s: %w", file.Name, err)
	}
	return s, nil
}

// complete sets the defaults, validates the scenario, and compiles its policies.
func (s *Scenario) complete(compile Compile) error {
	s.setDefaults()
	if err := s.validate(); err != nil {
		return err
	}
	for i := range s.Variants {
		v := &s.Variants[i]
		policies, err := s.policiesOf(v)
		if err != nil {
			return err
		}
		if v.set, err = compile(policies); err != nil {
			return fmt.Errorf("variant %q: %w", v.Name, err)
		}
		for j := range v.set.Rules {
			if domain := v.set.Rules[j].Domain; domain != "" && domain != domainOf(&v.set) {
				return fmt.Errorf("the requests have the domain %s, and the policies of namespace %s have no effect: use one namespace", domainOf(&v.set), domain)
			}
		}
	}
	return nil
}

func (s *Scenario) setDefaults() {
	s.Replicas = cmp.Or(s.Replicas, 1)
	if len(s.Variants) == 0 {
		s.Variants = []Variant{{Name: "policies"}}
	}
	for i := range s.Clients {
		c := &s.Clients[i]
		c.Count = cmp.Or(c.Count, 1)
		if c.To == 0 {
			c.To = s.Duration
		}
		if c.Retry == "" {
			c.Retry = Never
		}
		if c.retriesAreSet = c.Retries != 0; !c.retriesAreSet {
			c.Retries = 5
		}
	}
}

func (s *Scenario) validateVariants() error {
	for i := range s.Variants {
		switch name := s.Variants[i].Name; {
		case hasControls(name):
			return fmt.Errorf("variant %q is invalid: must not have control characters", name)
		case slices.ContainsFunc(s.Variants[:i], func(v Variant) bool { return v.Name == name }):
			return fmt.Errorf("two variants have the name %q: rename one of them", name)
		}
	}
	return nil
}

func (s *Scenario) validateClients() error {
	clients := 0
	for i := range s.Clients {
		c := &s.Clients[i]
		if err := c.validate(); err != nil {
			return fmt.Errorf("clients %q: %w", c.Name, err)
		}
		if c.From >= s.Duration {
			return fmt.Errorf("clients %q: from %v has no effect: the simulation ends at %v", c.Name, time.Duration(c.From), time.Duration(s.Duration))
		}
		if clients += c.Count; clients > maxClients {
			return fmt.Errorf("there must be at most %d clients", maxClients)
		}
	}
	return nil
}

func (s *Scenario) validate() error {
	switch {
	case s.Title == "":
		return errors.New("title must not be empty")
	case hasControls(s.Title):
		return fmt.Errorf("title %q is invalid: must not have control characters", s.Title)
	case hasControls(strings.NewReplacer("\n", "", "\t", "").Replace(s.Description)):
		return fmt.Errorf("description %q is invalid: must not have control characters", s.Description)
	case time.Duration(s.Duration) < time.Second || time.Duration(s.Duration) > maxDuration:
		return fmt.Errorf("duration %v is invalid: must be from 1s to %.0fh", time.Duration(s.Duration), maxDuration.Hours())
	case s.Replicas > maxReplicas:
		return fmt.Errorf("replicas %d is invalid: must be at most %d", s.Replicas, maxReplicas)
	case len(s.Variants) > maxVariants:
		return fmt.Errorf("there must be at most %d variants, and there are %d", maxVariants, len(s.Variants))
	case len(s.Policies) == 0:
		return errors.New("the scenario has no policies")
	case len(s.Clients) == 0:
		return errors.New("the scenario has no clients")
	}
	if err := s.validateVariants(); err != nil {
		return err
	}
	if err := s.validateClients(); err != nil {
		return err
	}
	for _, o := range s.Outages {
		if o.To <= o.From {
			return fmt.Errorf("the outage from %v must end later, not at %v", time.Duration(o.From), time.Duration(o.To))
		}
		if o.From >= s.Duration {
			return fmt.Errorf("the outage from %v has no effect: the simulation ends at %v", time.Duration(o.From), time.Duration(s.Duration))
		}
	}
	for _, one := range s.Scaling {
		if one.Replicas > maxReplicas {
			return fmt.Errorf("scaling: replicas must be at most %d, and is %d", maxReplicas, one.Replicas)
		}
		if one.At >= s.Duration {
			return fmt.Errorf("scaling at %v has no effect: the simulation ends at %v", time.Duration(one.At), time.Duration(s.Duration))
		}
	}
	if n := s.requests(); n > maxRequests {
		return fmt.Errorf("the clients send about %.0f requests: must be at most %d", n, maxRequests)
	}
	return nil
}

// hasControls reports whether a text has characters that neither a terminal nor XML can show.
func hasControls(text string) bool { return strings.ContainsFunc(text, unicode.IsControl) }

func (c *Clients) validate() error {
	switch {
	case hasControls(c.Name):
		return errors.New("the name must not have control characters")
	case c.Kind == Bursty && (c.Burst < 1 || c.Every <= 0):
		return fmt.Errorf("burst %d and every %v are invalid: both are required for Bursty, and must be positive", c.Burst, time.Duration(c.Every))
	case c.Kind != Bursty && (c.RequestsPerSecond <= 0 || c.RequestsPerSecond > 1e6):
		return fmt.Errorf("requestsPerSecond %v is invalid: it is required for %s, and must be positive and at most 1000000", c.RequestsPerSecond, c.Kind)
	case c.Kind != Bursty && (c.Burst != 0 || c.Every != 0):
		return fmt.Errorf("burst and every have no effect for %s: they are for Bursty", c.Kind)
	case c.Kind == Bursty && c.RequestsPerSecond != 0:
		return errors.New("requestsPerSecond has no effect for Bursty: set burst and every")
	case c.Kind == Rotating && c.Shared:
		return errors.New("shared has no effect for Rotating, whose requests have addresses of their own")
	case c.Retry == Never && (c.RetryDelay != 0 || c.retriesAreSet):
		return errors.New("retryDelay and retries have no effect without retry: set retry to Fixed or RetryAfter")
	case c.Retry == Fixed && c.RetryDelay <= 0:
		return errors.New("retryDelay is required for Fixed")
	case c.To <= c.From:
		return fmt.Errorf("to %v is invalid: must be after from, which is %v", time.Duration(c.To), time.Duration(c.From))
	default:
		return nil
	}
}

// requests estimates how many requests the clients send, without retries.
func (s *Scenario) requests() (n float64) {
	for i := range s.Clients {
		c := &s.Clients[i]
		span := time.Duration(c.To - c.From)
		if c.Kind == Bursty {
			n += float64(c.Count*c.Burst) * (float64(span/time.Duration(c.Every)) + 1)
		} else {
			n += float64(c.Count) * c.RequestsPerSecond * span.Seconds()
		}
	}
	return n
}

// policiesOf returns the policies of a variant as YAML.
func (s *Scenario) policiesOf(v *Variant) ([]byte, error) {
	var documents []byte
	for _, policy := range s.Policies {
		policy = maps.Clone(policy)
		if spec, isObject := policy["spec"].(map[string]any); isObject {
			spec = maps.Clone(spec)
			maps.Copy(spec, v.Spec)
			policy["spec"] = spec
		}
		text, err := yaml.Marshal(policy)
		if err != nil {
			return nil, fmt.Errorf("policies: %w", err)
		}
		documents = append(append(documents, "---\n"...), text...)
	}
	return documents, nil
}
