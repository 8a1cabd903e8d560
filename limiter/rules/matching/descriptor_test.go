package matching_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-dev/weir/limiter/rules"
)

// requestWithDescriptors parses descriptors: "key=value,key=value; key=value" is a request with two of them.
func requestWithDescriptors(text string) *rules.Request {
	r := request("GET - /")
	for d := range strings.SplitSeq(text, ";") {
		var descriptor rules.Descriptor
		for e := range strings.SplitSeq(strings.TrimSpace(d), ",") {
			if key, value, ok := strings.Cut(e, "="); ok {
				descriptor = append(descriptor, rules.Entry{Key: key, Value: value})
			}
		}
		r.Descriptors = append(r.Descriptors, descriptor)
	}
	return r
}

// descriptorMatches parses the entries of one descriptor match. An empty value matches any value.
func descriptorMatches(text string) []rules.DescriptorMatch {
	var match []rules.DescriptorMatch
	for _, e := range requestWithDescriptors(text).Descriptors[0] {
		match = append(match, rules.DescriptorMatch{Key: e.Key, Value: e.Value})
	}
	return match
}

func TestMatch_ComparesDescriptors(t *testing.T) {
	for name, tc := range map[string]struct {
		match   string
		in, out []string
	}{
		"one entry":                 {"a=1", []string{"a=1", "b=2; a=1", "a=1; a=1", "; a=1"}, []string{"", "a=2", "b=1", "a=1,b=2", "b=2,a=1", "a="}},
		"any value":                 {"a=", []string{"a=1", "a=2", "a=", "x=1; a=3"}, []string{"", "b=1", "a=1,b=2"}},
		"entries in order":          {"a=1,b=", []string{"a=1,b=2", "a=1,b="}, []string{"b=2,a=1", "a=1", "a=1,b=2,c=3", "a=1; b=2", "a=2,b=2"}},
		"the same key twice":        {"a=1,a=2", []string{"a=1,a=2"}, []string{"a=2,a=1", "a=1,a=1", "a=1"}},
		"any value, then one value": {"a=,b=2", []string{"a=1,b=2", "a=,b=2"}, []string{"a=1,b=1", "b=2"}},
	} {
		t.Run(name, func(t *testing.T) {
			for lookup, host := range map[string]string{"indexed by descriptor": "", "indexed by host": "a.example"} {
				m := rules.Match{Descriptors: descriptorMatches(tc.match)}
				if host != "" {
					m.Hosts = []string{host}
				}
				x := index(t, ruleMatching(m))
				for _, text := range tc.in {
					r := requestWithDescriptors(text)
					r.Host = host
					if len(x.Match(nil, r)) != 1 {
						t.Errorf("%s: %q did not match", lookup, text)
					}
				}
				for _, text := range tc.out {
					r := requestWithDescriptors(text)
					r.Host = host
					if len(x.Match(nil, r)) != 0 {
						t.Errorf("%s: %q matched", lookup, text)
					}
				}
			}
		})
	}
}

func TestMatch_ComparesPatternsOfDescriptors(t *testing.T) {
	for name, tc := range map[string]struct {
		match   rules.DescriptorMatch
		in, out []string // values of the entry
	}{
		"a prefix":             {rules.DescriptorMatch{Pattern: "/v1/*"}, []string{"/v1/", "/v1/a", "/v1/a/b"}, []string{"/v1", "/v2/", "x/v1/"}},
		"a suffix":             {rules.DescriptorMatch{Pattern: "*.js"}, []string{".js", "a.js", "a.js.js"}, []string{"a.jsx", "js"}},
		"parts in order":       {rules.DescriptorMatch{Pattern: "a*b*c"}, []string{"abc", "a-b-c", "abbcc", "acbc"}, []string{"acb", "ab", "abcd", "xabc"}},
		"parts do not overlap": {rules.DescriptorMatch{Pattern: "aba*aba"}, []string{"abaaba", "aba-aba"}, []string{"aba", "ababa"}},
		"a star":               {rules.DescriptorMatch{Pattern: "*"}, []string{"", "a"}, nil},
		"two stars":            {rules.DescriptorMatch{Pattern: "a**b"}, []string{"ab", "a*b"}, []string{"a", "b"}},
		"no star":              {rules.DescriptorMatch{Pattern: "a"}, []string{"a"}, []string{"", "aa"}},
		"a value with a star":  {rules.DescriptorMatch{Value: "a*"}, []string{"a*"}, []string{"a", "ab"}},
		"except values":        {rules.DescriptorMatch{Except: []string{"a", "b"}}, []string{"", "c", "aa"}, []string{"a", "b"}},
		"except patterns":      {rules.DescriptorMatch{Except: []string{"a*", "*z", "m"}}, []string{"", "ba", "zb"}, []string{"a", "ab", "bz", "m"}},
		"a long value":         {rules.DescriptorMatch{Except: []string{strings.Repeat("a", 512)}}, []string{strings.Repeat("a", 513)}, []string{strings.Repeat("a", 512)}},
		"a pattern except":     {rules.DescriptorMatch{Pattern: "a*", Except: []string{"ab", "ac*"}}, []string{"a", "abb"}, []string{"ab", "acc", "b"}},
	} {
		t.Run(name, func(t *testing.T) {
			for at := range 2 { // the first entry is indexed, the second is not
				entries := make([]rules.DescriptorMatch, 2)
				entries[at], entries[1-at] = tc.match, rules.DescriptorMatch{}
				entries[0].Key, entries[1].Key = "k", "l"
				x := index(t, ruleMatching(rules.Match{Descriptors: entries}))
				matches := func(value string) bool {
					d := rules.Descriptor{{Key: "k", Value: "other"}, {Key: "l", Value: "other"}}
					d[at].Value = value
					return len(x.Match(nil, &rules.Request{Domain: "shop", Descriptors: []rules.Descriptor{d}, NoHTTP: true})) == 1
				}
				for _, value := range tc.in {
					if !matches(value) {
						t.Errorf("entry %d: %q did not match", at, value)
					}
				}
				for _, value := range tc.out {
					if matches(value) {
						t.Errorf("entry %d: %q matched", at, value)
					}
				}
			}
		})
	}
}

func TestMatch_ComparesDescriptorsAndPaths(t *testing.T) {
	m := path(rules.PathPrefix, "/v1")
	m.Descriptors = descriptorMatches("a=1")
	x := index(t, ruleMatching(m))
	for _, tc := range []struct {
		path, descriptors string
		want              int
	}{{"/v1/x", "a=1", 1}, {"/v2", "a=1", 0}, {"/v1/x", "a=2", 0}} {
		r := requestWithDescriptors(tc.descriptors)
		r.Path = tc.path
		if got := len(x.Match(nil, r)); got != tc.want {
			t.Errorf("path %s with descriptor %s matched %d times, want %d", tc.path, tc.descriptors, got, tc.want)
		}
	}
}

func TestMatch_ReturnsRulesOfAllDescriptorsOfARequest(t *testing.T) {
	var list []rules.Rule
	for _, tc := range []struct{ policy, match string }{
		{"shop/1-any", ""},
		{"shop/2-login", "generic_key=login"},
		{"shop/3-key", "generic_key="},
		{"shop/4-other", "generic_key=other"},
		{"shop/5-tenant", "generic_key=login,tenant="},
	} {
		r := rule(tc.policy)
		r.Match.Descriptors = descriptorMatches(tc.match)
		list = append(list, r)
	}
	var got []string
	for _, m := range index(t, list...).Match(nil, requestWithDescriptors("generic_key=login; generic_key=login,tenant=acme; generic_key=")) {
		got = append(got, m.Rule.Policy)
	}
	if diff := cmp.Diff([]string{"shop/1-any", "shop/2-login", "shop/3-key", "shop/5-tenant"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestIdentify_ReadsDescriptors(t *testing.T) {
	for name, tc := range map[string]struct{ match, request, want string }{
		"from the descriptor that matched":                        {"path=/login,tenant=", "tenant=globex; path=/login,tenant=acme", "acme"},
		"from the first descriptor that matched":                  {"tenant=", "tenant=acme; tenant=globex", "acme"},
		"otherwise from the first descriptor with the key":        {"generic_key=login", "generic_key=login; tenant=acme; tenant=globex", "acme"},
		"without a match, from the first descriptor with the key": {"", "user=u1,tenant=acme; tenant=globex", "acme"},
		"the first of two entries with the key":                   {"", "tenant=acme,tenant=globex", "acme"},
		"an empty value is missing":                               {"", "tenant=; tenant=acme", ""},
		"no descriptor has the key":                               {"", "user=u1", ""},
		"no descriptors":                                          {"", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := rule("shop/it")
			r.Identifier = rules.Identifier{From: rules.FromDescriptor, Name: "tenant"}
			r.Match.Descriptors = descriptorMatches(tc.match)
			req := requestWithDescriptors(tc.request)
			m := index(t, r).Match(nil, req)
			if len(m) != 1 || m[0].Identify(req) != tc.want {
				t.Errorf("%d matches, %q; want %q", len(m), m[0].Identify(req), tc.want)
			}
		})
	}
}

func TestIdentify_ReadsTheDescriptorThatTheRuleMatchedFirst(t *testing.T) {
	r := rule("shop/a")
	r.Match = rules.Match{Descriptors: []rules.DescriptorMatch{{Key: "tenant"}, {Key: "plan"}}}
	r.Identifier = rules.Identifier{From: rules.FromExpression, Name: `request.descriptors[0][0].value + "/" + request.descriptors[1][0].value`}
	index := index(t, r)
	request := rules.Request{Domain: "shop", NoHTTP: true, Descriptors: []rules.Descriptor{
		{{Key: "api_key", Value: "s3cret"}}, {{Key: "host", Value: "h"}}, {{Key: "tenant", Value: "acme"}, {Key: "plan", Value: "free"}},
	}}
	matched := index.Match(nil, &request)
	if len(matched) != 1 {
		t.Fatalf("%d matches", len(matched))
	}
	if got := matched[0].Identify(&request); got != "acme/s3cret" { // the others keep their order
		t.Errorf("%q", got)
	}
	if request.Descriptors[0][0].Key != "api_key" {
		t.Error("the request has changed")
	}
}
