package rules_test

import (
	"testing"

	"github.com/weir-dev/weir/limiter/rules"
)

func TestRule_KindsFollowTheMatchAndTheIdentifier(t *testing.T) {
	const (
		plain, both, only = rules.PlainHTTP, rules.HTTPWithDescriptors, rules.OnlyDescriptors
		login             = "generic_key"
	)
	paths := []rules.PathMatch{{Type: rules.PathPrefix, Value: "/"}}
	descriptors := rules.Match{Descriptors: []rules.DescriptorMatch{{Key: login}}}
	for name, test := range map[string]struct {
		match      rules.Match
		identifier rules.IdentifierSource
		endpoint   bool
		want       rules.RequestKinds
	}{
		"no match, address":              {rules.Match{}, rules.FromClientIP, false, plain | both | only},
		"no match, expression":           {rules.Match{}, rules.FromExpression, false, plain | both | only},
		"no match, header":               {rules.Match{}, rules.FromHeader, false, plain | both},
		"no match, query":                {rules.Match{}, rules.FromQuery, false, plain | both},
		"no match, cookie":               {rules.Match{}, rules.FromCookie, false, plain | both},
		"no match, claim":                {rules.Match{}, rules.FromClaim, false, plain | both},
		"no match, endpoint":             {rules.Match{}, rules.FromEndpoint, false, plain | both},
		"no match, scope Endpoint":       {rules.Match{}, rules.FromClientIP, true, plain | both},
		"no match, descriptor":           {rules.Match{}, rules.FromDescriptor, false, both | only},
		"no match, descriptor, Endpoint": {rules.Match{}, rules.FromDescriptor, true, both},
		"descriptors":                    {descriptors, rules.FromDescriptor, false, both | only},
		"descriptors, header":            {descriptors, rules.FromHeader, false, both | only},
		"hosts":                          {rules.Match{Hosts: []string{"a"}}, rules.FromClientIP, false, plain | both},
		"paths":                          {rules.Match{Paths: paths}, rules.FromClientIP, false, plain | both},
		"methods":                        {rules.Match{Methods: []string{"GET"}}, rules.FromClientIP, false, plain | both},
		"headers":                        {rules.Match{Headers: []rules.HeaderMatch{{Type: rules.HeaderPresent, Name: "a"}}}, rules.FromClientIP, false, plain | both},
		"networks":                       {rules.Match{CIDRs: []string{"10.0.0.0/8"}}, rules.FromClientIP, false, plain | both},
		"excepted networks":              {rules.Match{ExceptCIDRs: []string{"10.0.0.0/8"}}, rules.FromClientIP, false, plain | both},
		"an expression":                  {rules.Match{Expression: "true"}, rules.FromClientIP, false, plain | both},
		"paths, counted by a descriptor": {rules.Match{Paths: paths}, rules.FromDescriptor, false, plain | both},
		"paths and descriptors":          {rules.Match{Paths: paths, Descriptors: descriptors.Descriptors}, rules.FromClientIP, false, both},
		"Kubernetes":                     {rules.Match{Kubernetes: &rules.KubernetesMatch{}}, rules.FromKubernetesUser, false, rules.KubernetesWrites},
		"Kubernetes, with an expression": {rules.Match{Kubernetes: &rules.KubernetesMatch{}, Expression: "true"}, rules.FromExpression, false, rules.KubernetesWrites},
	} {
		rule := rules.Rule{Match: test.match, Identifier: rules.Identifier{From: test.identifier}, PerEndpoint: test.endpoint}
		if got := rule.Kinds(); got != test.want {
			t.Errorf("%s: %b, want %b", name, got, test.want)
		}
	}
}
