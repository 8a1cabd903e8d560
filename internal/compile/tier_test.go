package compile_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/weir-dev/weir/api/v1alpha1/policyapi"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/limiter/rules/matching"
)

const secret = "s3cr3t-of-acme"

func policyWithTiers(axis policyapi.Axis, identifiers ...policyapi.TierIdentifier) policyapi.RateLimitPolicy {
	policy := policyapi.RateLimitPolicy{ObjectMeta: policyapi.ObjectMeta{Namespace: "shop", Name: "plans"}}
	policy.Spec = policyapi.RateLimitPolicySpec{Axis: axis, Limit: new(int64(1)), Window: "1m", Tiers: []policyapi.Tier{
		{Name: "known", When: policyapi.When{Identifiers: identifiers}, Limit: new(int64(10))},
	}}
	return policy
}

func TestCompile_HashesAPIKeys(t *testing.T) {
	set := mustCompile(t, policyWithTiers(policyapi.AxisAPIKey, secret))
	data, _ := rules.Encode(set)
	unpacked, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	published, err := io.ReadAll(unpacked)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(published, []byte(secret)) {
		t.Errorf("the encoded rule set contains the API key: %s", published)
	}
	want := []string{testHashKey().Hash(secret)}
	if diff := cmp.Diff(want, set.Rules[0].Tiers[0].When.Identifiers); diff != "" {
		t.Error(diff)
	}
}

func TestCompile_KeepsTheHashOfAnAPIKeyInATier(t *testing.T) {
	hash := testHashKey().Hash(secret)
	set := mustCompile(t, policyWithTiers(policyapi.AxisAPIKey, policyapi.TierIdentifier("hash:"+hash)))
	if diff := cmp.Diff([]string{hash}, set.Rules[0].Tiers[0].When.Identifiers); diff != "" {
		t.Error(diff)
	}
	for _, invalid := range []string{"hash:", "hash:" + hash[1:], "hash:" + hash + "0", "hash:" + strings.ToUpper(hash[:31]) + "F", "hash: " + hash[1:], "hash:" + secret} {
		_, problems := compile.Compile([]policyapi.RateLimitPolicy{policyWithTiers(policyapi.AxisAPIKey, policyapi.TierIdentifier(invalid))}, testIdentity())
		if len(problems) != 1 || problems[0].Field != "spec.tiers[0].when.identifiers[0]" || strings.Contains(problems[0].Message, secret) {
			t.Errorf("%s: %v", invalid, problems)
		}
	}
}

func TestCompile_NeverQuotesAPIKeysInProblems(t *testing.T) {
	for name, invalidate := range map[string]func(*policyapi.RateLimitPolicySpec){
		"an additional empty key": func(s *policyapi.RateLimitPolicySpec) {
			s.Tiers[0].When.Identifiers = append(s.Tiers[0].When.Identifiers, "")
		},
		"a tier with two conditions":             func(s *policyapi.RateLimitPolicySpec) { s.Tiers[0].When.Groups = []policyapi.Group{"a"} },
		"a tier without a limit":                 func(s *policyapi.RateLimitPolicySpec) { s.Tiers[0].Limit = nil },
		"two tiers with the same name":           func(s *policyapi.RateLimitPolicySpec) { s.Tiers = append(s.Tiers, s.Tiers[0]) },
		"a tier without a name":                  func(s *policyapi.RateLimitPolicySpec) { s.Tiers[0].Name = "" },
		"a burst for an algorithm without burst": func(s *policyapi.RateLimitPolicySpec) { s.Tiers[0].Burst = new(int64(1)) },
		"an unknown axis":                        func(s *policyapi.RateLimitPolicySpec) { s.Axis = "apikey" },
	} {
		t.Run(name, func(t *testing.T) {
			policy := policyWithTiers(policyapi.AxisAPIKey, secret)
			invalidate(&policy.Spec)
			set, problems := compile.Compile([]policyapi.RateLimitPolicy{policy}, testIdentity())
			if len(problems) == 0 || len(set.Rules) > 0 {
				t.Fatalf("want problems and no rules, got %v and %v", problems, set.Rules)
			}
			found, err := json.Marshal(problems)
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(string(found), secret) {
				t.Errorf("a problem contains the API key: %s", found)
			}
		})
	}
}

func TestCompile_NormalizesAddressesInTiersLikeLimiters(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		address := netip.AddrFrom16([16]byte(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "bytes")))
		if rapid.Bool().Draw(t, "IPv4") {
			address = netip.AddrFrom4([4]byte(rapid.SliceOfN(rapid.Byte(), 4, 4).Draw(t, "bytes of IPv4")))
		}
		identity := compile.DefaultIdentity()
		identity.IPv6PrefixLength = rapid.IntRange(0, 128).Draw(t, "prefix length")
		policy := policyWithTiers(policyapi.AxisIP, policyapi.TierIdentifier(address.String()))
		set, problems := compile.Compile([]policyapi.RateLimitPolicy{policy}, identity)
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		index, err := matching.NewIndex(set, "sha256:test", "weir:", matching.WithHashKey(testHashKey()))
		if err != nil {
			t.Fatal(err)
		}
		request := rules.Request{Domain: "shop", ClientIP: address}
		matched := index.Match(nil, &request)
		if len(matched) != 1 {
			t.Fatalf("%d rules match", len(matched))
		}
		if terms := matched[0].Terms(&request, matched[0].Identify(&request)); terms.Tier != "known" {
			t.Errorf("%v is counted as %q, which is not in the tier with identifiers %v", address, matched[0].Identify(&request), set.Rules[0].Tiers[0].When.Identifiers)
		}
	})
}

func TestCompile_AppliesTheIPv6PrefixLengthToAddressesOnly(t *testing.T) {
	for _, tc := range []struct {
		axis   policyapi.Axis
		length int
		want   int
	}{
		{policyapi.AxisIP, 0, 0},
		{policyapi.AxisIP, 64, 0},
		{policyapi.AxisIP, 56, 56},
		{policyapi.AxisIP, 128, 128},
		{policyapi.AxisTenant, 56, 0},
	} {
		t.Run(fmt.Sprintf("%s /%d", tc.axis, tc.length), func(t *testing.T) {
			policy := policyapi.RateLimitPolicy{ObjectMeta: policyapi.ObjectMeta{Namespace: "shop", Name: "a"}}
			policy.Spec = policyapi.RateLimitPolicySpec{Axis: tc.axis, Limit: new(int64(1)), Window: "1m"}
			identity := compile.DefaultIdentity()
			identity.IPv6PrefixLength = tc.length
			set, problems := compile.Compile([]policyapi.RateLimitPolicy{policy}, identity)
			if len(problems) > 0 {
				t.Fatal(problems)
			}
			if got := set.Rules[0].Identifier.IPv6Prefix; got != tc.want {
				t.Errorf("the rule has a prefix of %d bits, want %d", got, tc.want)
			}
		})
	}
}

func TestCompile_KeepsTheOrderOfTiers(t *testing.T) {
	policy := policyWithTiers(policyapi.AxisTenant, "acme")
	policy.Spec.Tiers = append([]policyapi.Tier{
		{Name: "zero", When: policyapi.When{Groups: []policyapi.Group{"staff"}}, Unlimited: true},
	}, policy.Spec.Tiers...)
	var names []string
	for _, tier := range mustCompile(t, policy).Rules[0].Tiers {
		names = append(names, tier.Name)
	}
	if diff := cmp.Diff([]string{"zero", "known"}, names); diff != "" {
		t.Error(diff)
	}
}
