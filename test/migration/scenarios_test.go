package migration

import (
	"testing"
)

// The configurations below have the shape of those in the integration tests and the documentation of Envoy's rate limit service.
func TestImport_PassesThePublishedScenarios(t *testing.T) {
	w := newWeir(t)
	type request struct {
		descriptors [][]entry
		want        string // one letter for each repetition: o is OK, x is OVER_LIMIT
	}
	one := func(want string, pairs ...string) request {
		var descriptor []entry
		for i := 0; i < len(pairs); i += 2 {
			descriptor = append(descriptor, entry{pairs[i], pairs[i+1]})
		}
		return request{[][]entry{descriptor}, want}
	}
	for name, tc := range map[string]struct {
		config   string
		requests []request
	}{
		"three per minute for each value": {
			`{domain: rl, descriptors: [{key: source_cluster, value: proxy, descriptors: [{key: destination_cluster, value: mock, rate_limit: {unit: hour, requests_per_unit: 1}}]},
			 {key: foo, rate_limit: {unit: hour, requests_per_unit: 3}}]}`,
			[]request{one("ooox", "foo", "a"), one("ooox", "foo", "b"), one("ox", "source_cluster", "proxy", "destination_cluster", "mock"), one("ooo", "source_cluster", "proxy")},
		},
		"a banned value": {
			`{domain: rl, descriptors: [{key: bar, rate_limit: {unit: hour, requests_per_unit: 2}}, {key: bar, value: banned, rate_limit: {unit: hour, requests_per_unit: 0}}]}`,
			[]request{one("xx", "bar", "banned"), one("oox", "bar", "other")},
		},
		"a shadowed value": {
			`{domain: rl, descriptors: [{key: baz, rate_limit: {unit: hour, requests_per_unit: 2}}, {key: baz, value: shady, shadow_mode: true, rate_limit: {unit: hour, requests_per_unit: 3}}]}`,
			[]request{one("ooooo", "baz", "shady"), one("oox", "baz", "clear")},
		},
		"nested descriptors and depth": {
			`{domain: rl, descriptors: [{key: message_type, value: marketing, descriptors: [{key: to_number, rate_limit: {unit: day, requests_per_unit: 2}}]},
			 {key: to_number, rate_limit: {unit: day, requests_per_unit: 3}}]}`,
			[]request{
				one("oox", "message_type", "marketing", "to_number", "2061111111"), one("oox", "message_type", "marketing", "to_number", "2062222222"),
				one("ooox", "to_number", "2061111111"), one("oooo", "message_type", "marketing"), one("oooo", "message_type", "other", "to_number", "1"),
			},
		},
		"a wildcard": {
			`{domain: rl, descriptors: [{key: key1, value: "value*", rate_limit: {unit: hour, requests_per_unit: 1}}]}`,
			[]request{one("ox", "key1", "value1"), one("ox", "key1", "value2"), one("ooo", "key1", "other")},
		},
		"unlimited": {
			`{domain: rl, descriptors: [{key: ldap, rate_limit: {unlimited: true}}, {key: azure, rate_limit: {unit: hour, requests_per_unit: 1}}]}`,
			[]request{one("oooo", "ldap", ""), one("ox", "azure", "")},
		},
		"several descriptors in one request": {
			`{domain: rl, descriptors: [{key: user, rate_limit: {unit: hour, requests_per_unit: 2}}, {key: user, value: vip, rate_limit: {unlimited: true}}, {key: path, rate_limit: {unit: hour, requests_per_unit: 3}}]}`,
			[]request{{[][]entry{{{"user", "a"}}, {{"path", "/"}}}, "oox"}, {[][]entry{{{"user", "vip"}}, {{"path", "/"}}}, "ox"}},
		},
		"another domain": {
			`{domain: other, descriptors: [{key: user, rate_limit: {unit: hour, requests_per_unit: 0}}]}`,
			[]request{one("oo", "user", "a")},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w.reset()
			expectImported(t, w.importFrom(t, tc.config, name))
			for i, r := range tc.requests {
				for repetition, want := range r.want {
					if got := isOver(w.decide(t, "rl", r.descriptors).GetOverallCode()); got != (want == 'x') {
						t.Errorf("request %d, repetition %d, %v: denied %t, want %s", i, repetition, r.descriptors, got, r.want)
					}
				}
			}
		})
	}
}
