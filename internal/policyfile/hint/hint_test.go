package hint_test

import (
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"sigs.k8s.io/json"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/api/v1alpha1/policyapi"
	"github.com/weir-dev/weir/internal/policyfile/hint"
	"github.com/weir-dev/weir/internal/policyfile/structure"
)

func TestImprove_StatesWhatToWrite(t *testing.T) {
	for _, c := range []struct{ field, value, want string }{
		// A rate in place of a limit.
		{"spec limit", `"100/m"`, "write limit: 100 and window: 1m"},
		{"spec limit", `"1k per minute"`, "write limit: 1000 and window: 1m"},
		{"spec limit", `"5r/s"`, "write limit: 5 and window: 1s"},
		{"spec rates 0 limit", `"100/10 min"`, "write limit: 100 and window: 10m"},
		// Numbers.
		{"spec limit", `"100"`, "write limit: 100"},
		{"spec limit", `"1,000"`, "write limit: 1000"},
		{"spec limit", `1.5`, "write a whole number"},
		{"spec burst", `"10k"`, "write burst: 10000"},
		{"spec tiers 0 limit", `[5]`, "write a single value"},
		// Units of time, in every notation.
		{"spec window", `60`, "write window: 1m"},
		{"spec window", `"90"`, "write window: 1m30s"},
		{"spec window", `"1min"`, "write window: 1m"},
		{"spec window", `"1 hour"`, "write window: 1h"},
		{"spec window", `"1w"`, "write window: 7d"},
		{"spec window", `"1.5h"`, "write window: 1h30m"},
		{"spec window", `"PT1M30S"`, "write window: 1m30s"},
		{"spec window", `"minute"`, "write window: 1m"},
		{"spec window", `"fortnight"`, ""},
		{"spec window", `"900d"`, ""}, // out of bounds
		{"spec window", `"9000h"`, ""},
		{"spec lease maxShare", `"80%"`, ""},
		{"spec rates 0 window", `60`, "write window: 1m"},
		{"spec lease maxAge", `2`, "write maxAge: 2s"},
		{"spec lease maxAge", `0.25`, "write maxAge: 250ms"},
		{"spec lease maxShare", `10`, "write maxShare: 10%"},
		{"spec lease maxShare", `0.1`, "write maxShare: 10%"},
		{"spec lease maxShare", `"10 %"`, "write maxShare: 10%"},
		// A list as a scalar, and the reverse.
		{"spec match http paths 0", `"/v1"`, "write - {value: /v1}"},
		{"spec match http paths", `"/v1"`, "write paths: [{value: /v1}]"},
		{"spec match http methods", `"GET"`, "write methods: [GET]"},
		{"spec match http methods", `"get, post"`, "write methods: [GET, POST]"},
		{"spec match http methods", `{"name": "GET"}`, "write a list: put a hyphen in front of each of its objects"},
		{"spec match http methods 0", `"get"`, "did you mean GET?"},
		{"spec match http cidrs", `"10.0.0.0/8"`, `write cidrs: ["10.0.0.0/8"]`},
		{"spec tiers 0 when groups", `"partners"`, "write groups: [partners]"},
		{"spec axis", `["Tenant"]`, "write axis: Tenant"},
		{"spec cost", `5`, "write cost: {value: 5}"},
		{"spec identifier", `"x-user"`, "write an object with claim, cookie, descriptor, expression, fallbacks, header, onMissing or query"},
		{"spec identifier header", `{"name": "x"}`, "write a single value"},
		{"spec denial", `503`, "write an object with contentType, headers, message or status"},
		// Booleans, and what YAML reads as one.
		{"spec match http headers 0 invert", `"yes"`, "write invert: true"},
		{"spec match http headers 0 value", `true`, `write value: "on"`},
		{"spec tiers 0 name", `1`, `write name: "on"`},
		// Values of an enumeration.
		{"spec axis", `"ip"`, "did you mean IP?"},
		{"spec axis", `"ApiKey"`, "did you mean APIKey?"},
		{"spec axis", `"api-key"`, "did you mean APIKey?"},
		{"spec axis", `"Tennant"`, "did you mean Tenant?"},
		{"spec axis", `"Planet"`, ""},
		{"spec algorithm", `"token_bucket"`, "did you mean TokenBucket?"},
		{"spec algorithm", `"sliding window log"`, "did you mean SlidingWindowLog?"},
		{"spec enforcement", `"Shadw"`, "did you mean Shadow?"},
		{"spec algorithm", `"fixed"`, "did you mean FixedWindow?"},
		{"spec algorithm", `"SlidingLog"`, "did you mean SlidingWindowLog?"},
		{"spec algorithm", `"sliding"`, ""}, // two have the word
		{"spec axis", `"ClientIP"`, "did you mean IP?"},
		{"spec axis", `"client-ip"`, "did you mean IP?"},
		{"spec axis", `"Header"`, ""},
		{"spec match http paths 0 type", `"Prefix"`, "did you mean PathPrefix?"},
		// Names as keys.
		{"spec match http headers", `{"x-a": "b"}`, "write headers: [{name: x-a, value: b}]"},
		{"spec match descriptors", `{"tenant": "acme"}`, "write descriptors: [{key: tenant, value: acme}]"},
		{"spec tiers", `{"gold": {"limit": 5}}`, "write tiers: [{name: gold, limit: 5}]"},
		{"spec tiers", `{"name": "gold"}`, "write a list: put a hyphen in front of each of its objects"},
		{"spec limit", `"{{ .Values.limit }}"`, "this is a template; check its output"},
		{"spec limit", `1e20`, "write a smaller number"},
	} {
		var value any
		if err := json.UnmarshalCaseSensitivePreserveInts([]byte(c.value), &value); err != nil {
			t.Fatal(err)
		}
		raw := c.value
		if strings.HasSuffix(c.want, `"on"`) {
			raw = "on"
		}
		got := hint.Improve(objectOf("RateLimitPolicy"), strings.Fields(c.field), "is wrong", hint.Value{Decoded: value, Raw: raw})
		want := "is wrong"
		if c.want != "" {
			want += "; " + c.want
		}
		if got != want {
			t.Errorf("%s: %s\ngot  %s\nwant %s", c.field, c.value, got, want)
		}
	}
}

func TestImprove_HasTheValueInTheMessageAboutAType(t *testing.T) {
	got := hint.Improve(objectOf("RateLimitPolicy"), []string{"spec", "window"}, `Invalid value: "integer": spec.window in body must be of type string: "integer"`,
		hint.Value{Decoded: int64(60), Raw: "60"})
	if want := "must be of type string, and is the integer 60; write window: 1m"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestImprove_AddsTheValueToARuleOfTheObjectAroundIt(t *testing.T) {
	for given, want := range map[string]string{
		"Invalid value: a path must begin with a slash":       `Invalid value: "v1": a path must begin with a slash`,
		`Invalid value: "v1": a path must begin with a slash`: `Invalid value: "v1": a path must begin with a slash`,
		`Required value`: `Required value`,
	} {
		if got := hint.Improve(objectOf("RateLimitPolicy"), strings.Fields("spec match http paths 0 value"), given, hint.Value{Decoded: "v1"}); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	quoted := `Invalid value: "a\x1b": message must not contain control characters` // as a validation of Weir quotes it, which JSON does not
	if got := hint.Improve(objectOf("RateLimitPolicy"), strings.Fields("spec denial message"), quoted, hint.Value{Decoded: "a\x1b"}); got != quoted {
		t.Errorf("got %q, want %q", got, quoted)
	}
}

func TestUnknown_NamesTheFieldThatIsMeant(t *testing.T) {
	for path, want := range map[string]string{
		"spec brust":                   "did you mean burst?",
		"spec Limit":                   "did you mean limit?",
		"spec on_store_failure":        "did you mean onStoreFailure?",
		"spec methods":                 "the field methods is at spec.match.http.methods",
		"spec match paths":             "the field paths is at spec.match.http.paths",
		"metadata lables":              "did you mean labels?",
		"metadata annotation":          "did you mean annotations?",
		"spec match http header":       "did you mean headers?",
		"spec match http paths 0 kind": "the fields are type, value",
		"limit":                        "the field limit is at spec.limit",
		"spec requests": "the fields are algorithm, axis, burst, cost, counterName, denial, enforcement, identifier, lease, limit, localShare, match, " +
			"onStoreFailure, overrun, rates, replaces, scope, storage, targetRefs, tiers, window",
		"spec onFailure":               "did you mean onStoreFailure?",
		"spec algo":                    "did you mean algorithm?",
		"spec identifier headers":      "did you mean header?",
		"spec tiers 0 when header nam": "did you mean name?",
		"spc":                          "did you mean spec?",
	} {
		if got := hint.Unknown(objectOf("RateLimitPolicy"), strings.Fields(path)); got != want {
			t.Errorf("%s: got %q, want %q", path, got, want)
		}
	}
	if got := hint.Unknown(objectOf("Limiter"), []string{"spec", "redis", "adresses"}); got != "did you mean addresses?" {
		t.Error(got)
	}
}

func objectOf(kind string) structure.Field {
	object, _ := structure.Kind(kind)
	return object
}

// Every field with a unit has the unit in the structure, so that each of them gets a hint.
func TestImprove_KnowsTheUnitOfEveryField(t *testing.T) {
	known := 0
	for kind, spec := range map[string]any{
		"RateLimitPolicy": policyapi.RateLimitPolicySpec{}, "ClusterRateLimitPolicy": policyapi.ClusterRateLimitPolicySpec{}, "Limiter": v1alpha1.LimiterSpec{},
	} {
		fields(reflect.TypeOf(spec), []string{"spec"}, func(path []string, of reflect.Type) {
			unit := map[string]string{"Duration": "duration", "Percentage": "percentage"}[of.Name()]
			if unit == "" || of.PkgPath() != reflect.TypeFor[policyapi.Duration]().PkgPath() {
				return
			}
			known++
			f, exists := objectOf(kind).Lookup(path...)
			if !exists || f.Unit() != unit {
				t.Errorf("%s: %s: unit %q, want %q; run make generate", kind, strings.Join(path, "."), f.Unit(), unit)
			}
		})
	}
	if known < 10 {
		t.Errorf("%d fields with a unit", known)
	}
}

// fields calls visit for each field of a struct, with its path.
func fields(of reflect.Type, path []string, visit func([]string, reflect.Type)) {
	switch of.Kind() {
	case reflect.Pointer:
		fields(of.Elem(), path, visit)
	case reflect.Slice:
		fields(of.Elem(), append(slices.Clone(path), strconv.Itoa(0)), visit)
	case reflect.Struct:
		if !strings.HasPrefix(of.PkgPath(), "github.com/weir-dev/weir/") {
			return
		}
		for f := range of.Fields() {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			at := path
			if name != "" {
				at = append(slices.Clone(path), name)
			}
			fields(f.Type, at, visit)
		}
	default:
		visit(path, of)
	}
}
