package ratelimitservice

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"

	"github.com/weir-dev/weir/api/v1alpha1/policyapi"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/compile/window"
	"github.com/weir-dev/weir/internal/importer"
	"github.com/weir-dev/weir/internal/importer/envoyratelimit"
	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/limiter/rules/policyname"
)

// Options are the choices that a configuration does not contain.
type Options struct {
	// Algorithm of the limits without one in their metadata. [envoyratelimit.ServiceAlgorithm] decides as the service does: each descriptor is
	// charged on its own, also if it or another one is denied. With the other algorithms, a request that one limit denies is charged to no
	// limit with such an algorithm.
	Algorithm policyapi.Algorithm
	// OnStoreFailure decides while Redis is unavailable. Deny fails calls, as the service does, so that the failure mode of Envoy decides.
	OnStoreFailure policyapi.StoreFailure
	// Shadow lets no limit deny a request.
	Shadow bool
	// HashKey hashes credentials in descriptors. All processes that share counters must have the same key. It is required.
	HashKey *limiter.HashKey
}

// PublicHashKey returns the key without --hash-key. It is published, so its hashes only keep credentials from being read, and not from being
// guessed. The service in whose place Weir runs has no such key, and its configuration does not either.
func PublicHashKey() *limiter.HashKey {
	key, _ := limiter.NewHashKey([]byte("weir ratelimit without the flag --hash-key")) // never an error: it is long enough
	return key
}

// Limit is a limit of the configuration.
type Limit struct {
	Name  string // in responses; usually empty
	Zero  bool   // the limit is 0
	Units int64  // of the rule, 1 if Zero
	// Domain, Key1 and Key2 are the labels of the metrics of the service: the first two levels of the path to the limit.
	Domain, Key1, Key2 string
}

// compiled is the compiled configuration of one domain.
type compiled struct {
	hashKey *limiter.HashKey

	rules  []rules.Rule
	limits map[string]Limit // by policy
	notes  []string         // about parts that decide in another way
}

// problem is why a part of a configuration cannot be enforced.
type problem struct {
	number  int // of the descriptor, from 1, parents before children; 0 for the whole domain
	message string
}

// compileDomain returns the rules for the configuration of one domain, or everything that cannot be enforced.
func compileDomain(config *ratelimitv3.RateLimitConfig, options Options) (*compiled, []problem) {
	imported := envoyratelimit.ImportMessage(config, envoyratelimit.Options{Algorithm: options.Algorithm})
	out := &compiled{hashKey: options.HashKey, limits: map[string]Limit{}}
	var problems []problem
	for _, f := range imported.Findings {
		switch f.Kind {
		case importer.Invalid, importer.NotImported:
			problems = append(problems, problem{f.Line, f.Message})
		case importer.Difference:
			out.note(f.Message)
		case importer.Note:
			if !strings.Contains(f.Message, "does not need a policy") {
				out.note(f.Message)
			}
		}
	}
	if len(problems) > 0 {
		return nil, problems
	}
	policies, problems := policiesOf(imported.Policies, options, out)
	if len(problems) > 0 {
		return nil, problems
	}
	result := policies.Compile(compile.DefaultIdentity().WithHashKey(options.HashKey))
	for _, p := range result.Problems {
		number := 0
		if i, err := indexOf(p.Policy); err == nil && p.Field != "spec.domains[0]" {
			number = imported.Policies[i].Line
		}
		problems = append(problems, problem{number, p.Field + ": " + p.Message})
	}
	if len(problems) > 0 {
		return nil, problems
	}
	for _, rule := range result.Set.Rules {
		i, err := indexOf(rule.Policy)
		if err != nil {
			return nil, []problem{{0, fmt.Sprintf("unexpected rule %s: %v", rule.Policy, err)}}
		}
		out.add(rule, &imported.Policies[i])
	}
	return out, nil
}

// indexOf returns the index in the imported policies: the compiler names a rule and a problem after their policy, whose name is the index.
func indexOf(policy string) (int, error) {
	_, name := policyname.Split(policy)
	return strconv.Atoi(name)
}

// note adds a note, once.
func (c *compiled) note(text string) {
	if !slices.Contains(c.notes, text) {
		c.notes = append(c.notes, text)
	}
}

// policiesOf returns the imported policies as API objects. The name of each is its index.
func policiesOf(imported []importer.Policy, options Options, out *compiled) (policies compile.Policies, problems []problem) {
	for i := range imported {
		spec := imported[i].Spec
		spec.OnStoreFailure = options.OnStoreFailure
		if options.Shadow {
			spec.Enforcement = policyapi.EnforcementShadow
		}
		window, err := window.Parse(spec.Window)
		if err != nil {
			problems = append(problems, problem{imported[i].Line, err.Error()})
			continue
		}
		if traits := limiter.Algorithm(spec.Algorithm).Traits(); traits.Name != "" && window > traits.MaxWindow {
			out.note(fmt.Sprintf("%s: %s has no windows of %s; %s applies", imported[i].Comment, spec.Algorithm, spec.Window, envoyratelimit.ServiceAlgorithm))
			spec.Algorithm = envoyratelimit.ServiceAlgorithm
		}
		policies.Cluster = append(policies.Cluster, policyapi.ClusterRateLimitPolicy{
			ObjectMeta: policyapi.ObjectMeta{Name: strconv.Itoa(i)},
			Spec: policyapi.ClusterRateLimitPolicySpec{
				RateLimitPolicySpec: spec, Domains: []policyapi.Domain{policyapi.Domain(imported[i].Domain)},
			},
		})
	}
	return policies, problems
}

// add adds the rule for a policy.
func (c *compiled) add(rule rules.Rule, policy *importer.Policy) {
	rule.Policy = policyName(policy.Domain, rule.Match.Descriptors, c.hashKey)
	limit := Limit{Name: policy.LimitName, Domain: statName(policy.Domain)}
	if rule.Units == 0 { // a limit in the request replaces it, and the service counts what it denies: a rule with 0 units does neither
		rule.Units, rule.Cost, limit.Zero = 1, &rules.Cost{Value: 2}, true
	}
	limit.Units = rule.Units
	rule.Debt = policy.Spec.Algorithm == envoyratelimit.ServiceAlgorithm // as asked for, also if it applies in place of another one
	rule.WholeDebt = rule.Debt
	for i, entry := range rule.Match.Descriptors {
		key := entry.Key
		if value := shownValue(entry, c.hashKey); value != "" {
			key += "_" + value
		}
		switch i {
		case 0:
			limit.Key1 = statName(key)
		case 1:
			limit.Key2 = statName(key)
		}
	}
	c.rules = append(c.rules, rule)
	c.limits[rule.Policy] = limit
}

var addressWithDots = regexp.MustCompile(`\d+\.\d+\.\d+\.\d+`)

// statName is a text as a part of a name of a statistic of the service.
func statName(text string) string {
	text = strings.NewReplacer(":", "_", "|", "_").Replace(text)
	return addressWithDots.ReplaceAllStringFunc(text, func(address string) string { return strings.ReplaceAll(address, ".", "_") })
}
