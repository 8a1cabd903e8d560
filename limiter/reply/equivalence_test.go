package reply

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/dunglas/httpsfv"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/engine"
	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/limiter/rules/matching"
)

func TestProblemJSON_EqualsEncodingJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := &Problem{
			Type: rapid.String().Draw(t, "type"), Title: rapid.String().Draw(t, "title"), Status: rapid.Int().Draw(t, "status"),
			Detail: rapid.String().Draw(t, "detail"), Field: rapid.StringN(0, 3, -1).Draw(t, "field"),
			ViolatedPolicies: rapid.SliceOfN(rapid.String(), 0, 3).Draw(t, "policies"),
		}
		var want bytes.Buffer
		if err := json.NewEncoder(&want).Encode(p); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want.String(), string(p.JSON())); diff != "" {
			t.Error(diff)
		}
	})
}

func TestProblemJSON_EscapesAsEncodingJSON(t *testing.T) {
	for _, text := range []string{"", " ", "~", "\x1f", "\x7f", "é", "\u2028", "\xff", `"`, `\`, "<", ">", "&"} {
		want, err := json.Marshal(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := appendString(nil, text); !bytes.Equal(got, want) {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

func TestSetHeaders_ListsEqualThoseOfAStructuredFieldsLibrary(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		answer := rapid.Custom(answerOf).Draw(t, "answer")
		got := http.Header{}
		errGot := RateLimitHeaders.SetHeaders(got, &answer, epoch())
		errNumbers := XRateLimitHeaders.SetHeaders(got, &answer, epoch())
		var policies, limits, quotas httpsfv.List
		for i := range enforced(&answer) {
			r := &answer.Results[i]
			policies = append(policies, item(r.Rule.Policy, "q", r.Decision.Limit, "w", seconds(r.Window)))
			limits = append(limits, item(r.Rule.Policy, "r", r.Remaining, "t", seconds(effectiveWindow(r.Decision))))
			quota := httpsfv.NewItem(r.Decision.Limit)
			quota.Params.Add("w", seconds(r.Window))
			quota.Params.Add("name", r.Rule.Policy)
			quotas = append(quotas, quota)
		}
		for name, list := range map[string]httpsfv.List{"RateLimit-Policy": policies, "RateLimit": limits, "X-RateLimit-Limit": quotas} {
			want, errWant := httpsfv.Marshal(list)
			if (errGot == nil) != (errWant == nil) || (errNumbers == nil) != (errWant == nil) {
				t.Fatalf("errors %v and %v, want %v", errGot, errNumbers, errWant)
			}
			value := strings.Join(got[name], "|")
			if name == "X-RateLimit-Limit" && errWant == nil {
				_, value, _ = strings.Cut(value, ", ")
			}
			if errWant == nil && value != want {
				t.Errorf("%s: %s, want %s", name, value, want)
			}
			if errWant != nil && got[name] != nil {
				t.Errorf("%s: %v together with an error", name, got[name])
			}
		}
	})
}

// answerOf draws an answer of one to four results, some of them with a name that no header can contain.
func answerOf(t *rapid.T) engine.Answer {
	name := rapid.OneOf(rapid.StringMatching(`[ -~]{0,60}`), rapid.StringMatching(`[a-z]{1,60}/[a-z0-9-]{1,200}`), rapid.StringN(0, 5, -1))
	answer := engine.Answer{Allowed: rapid.Bool().Draw(t, "allowed")}
	for range rapid.IntRange(1, 4).Draw(t, "results") {
		answer.Results = append(answer.Results, engine.Result{
			Rule:   &matching.Compiled{Rule: rules.Rule{Policy: name.Draw(t, "policy")}},
			Window: time.Duration(rapid.Int64Range(1, int64(limiter.MaxWindow)).Draw(t, "window")),
			Decision: limiter.Decision{
				Allowed:    rapid.Bool().Draw(t, "allowed by it"),
				Limit:      rapid.Int64Range(1, limiter.MaxUnits).Draw(t, "limit"),
				Remaining:  rapid.Int64Range(0, limiter.MaxUnits).Draw(t, "remaining"),
				ResetAfter: time.Duration(rapid.Int64Range(0, int64(limiter.MaxWindow)).Draw(t, "reset")),
				RetryAfter: time.Duration(rapid.Int64Range(0, int64(limiter.MaxWindow)).Draw(t, "retry")),
			},
		})
	}
	return answer
}

func item(name, first string, a int64, second string, b int64) httpsfv.Item {
	i := httpsfv.NewItem(name)
	i.Params.Add(first, a)
	i.Params.Add(second, b)
	return i
}

func TestAppendFields_AppendsWhatSetHeadersSets(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		answer := rapid.Custom(answerOf).Draw(t, "answer")
		style := rapid.SampledFrom([]Style{RateLimitHeaders, XRateLimitHeaders, GitHubHeaders, NoHeaders}).Draw(t, "style")
		header := http.Header{}
		errSet := style.SetHeaders(header, &answer, epoch())
		begin := []Field{{Lower: "content-type", Value: "text/plain"}}
		fields, errAppended := style.AppendFields(begin, &answer, epoch())
		if (errSet == nil) != (errAppended == nil) || fields[0] != begin[0] {
			t.Fatalf("%v; %v, %v", fields, errSet, errAppended)
		}
		var set, appended []string
		for name, value := range Fields(header) {
			set = append(set, name+": "+value)
		}
		for _, f := range fields[1:] {
			appended = append(appended, f.Lower+": "+f.Value)
		}
		if diff := cmp.Diff(set, appended); diff != "" {
			t.Errorf("fields (-set +appended):\n%s", diff)
		}
	})
}
