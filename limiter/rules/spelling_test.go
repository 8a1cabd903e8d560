package rules_test

import (
	"strings"
	"testing"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/rules"
)

func TestRule_RejectsNamesThatNoRequestHas(t *testing.T) {
	for want, change := range map[string]func(*rules.Rule){
		`the header "X-Api-Key" of the identifier must be in lower case`: func(r *rules.Rule) {
			r.Identifier = rules.Identifier{From: rules.FromHeader, Name: "X-Api-Key"}
		},
		`the header "X-B" of the identifier must be in lower case`: func(r *rules.Rule) {
			r.Fallbacks = []rules.Identifier{{From: rules.FromHeader, Name: "X-B"}}
		},
		`the header "X-Cost" of the cost must be in lower case`: func(r *rules.Rule) { r.Cost = &rules.Cost{Header: "X-Cost"} },
		`the header "X-Plan" must be in lower case`: func(r *rules.Rule) {
			r.Tiers = []rules.Tier{{Name: "a", When: rules.When{Header: &rules.HeaderMatch{Type: rules.HeaderPresent, Name: "X-Plan"}}}}
		},
		`the header "Accept" must be in lower case`: func(r *rules.Rule) {
			r.Match.Headers = []rules.HeaderMatch{{Type: rules.HeaderPresent, Name: "Accept"}}
		},
		`the host "Example.com" must be in lower case`: func(r *rules.Rule) { r.Match.Hosts = []string{"Example.com"} },
		`the path "Hello" must begin with a slash`: func(r *rules.Rule) {
			r.Match.Paths = []rules.PathMatch{{Type: rules.PathPrefix, Value: "Hello"}}
		},
		`the method "get" must be GET: methods have a case`: func(r *rules.Rule) { r.Match.Methods = []string{"PURGE", "get"} },
		"": func(r *rules.Rule) {
			r.Match.Methods = []string{"GET", "purge"} // clients can mean it
			r.Match.Paths = []rules.PathMatch{{Type: rules.PathRegex, Value: ".*"}, {Type: rules.PathExact, Value: "/A"}}
			r.Identifier = rules.Identifier{From: rules.FromClaim, Name: "Sub"}
		},
	} {
		r := rules.Rule{
			Policy: "shop/a", Domain: "shop", Identifier: rules.Identifier{From: rules.FromClientIP}, Algorithm: limiter.FixedWindow, Units: 1, WindowSeconds: 60,
			OnStoreFailure: rules.LocalOnFailure,
		}
		change(&r)
		err := r.Validate()
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}
