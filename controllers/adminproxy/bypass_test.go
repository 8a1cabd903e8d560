package adminproxy

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-dev/weir/limiter/admin/adminapi"
)

const aBypass = `{"policy":"shop/daily","identifier":"sk-1","seconds":1800,"reason":"INC-1"}`

func newBypassHarness(t *testing.T) *harness {
	t.Helper()
	h := newHarness(t)
	h.allowed["jane create limiters.weir.dev/bypasses of edge/main"] = true
	h.allowed["jane delete limiters.weir.dev/bypasses of edge/main"] = true
	return h
}

func TestRecordBypass_CreatesAnEventWithTheUserAndTheReason(t *testing.T) {
	h := newBypassHarness(t)
	got := h.replica(200, `{"name":"b","identifier":"5f3a"}`)
	h.pod(nil, nil) // does not answer
	status, text := h.call("jane", "POST", "edge/main/bypasses", aBypass)
	if status != 200 || len(*got) != 1 {
		t.Fatalf("%d %s: forwarded %q", status, text, *got)
	}
	var forwarded adminapi.BypassRequest
	if err := json.Unmarshal([]byte((*got)[0]), &forwarded); err != nil {
		t.Fatal(err)
	}
	if age := time.Since(*forwarded.CreatedAt); age < 0 || age > time.Minute || !regexp.MustCompile(`^bypass-[a-z2-7]{10}$`).MatchString(forwarded.Name) {
		t.Errorf("forwarded %s", (*got)[0])
	}
	want := fmt.Sprintf(`RateLimitPolicy shop/daily: User "jane" lets identifier "5f3a" pass for 30m0s with %s, confirmed by 1 of 2 replicas of Limiter edge/main: INC-1`, forwarded.Name)
	if e := h.events(); !slices.Equal(e, []string{want}) || !strings.Contains(h.log.String(), "caller=jane") || strings.Contains(h.log.String(), "sk-1") {
		t.Errorf("events %q, want %q; log %s", e, want, h.log.String())
	}
	h.call("jane", "POST", "edge/main/bypasses/end", `{"name":"b","policy":"shop/daily"}`)
	if e := h.events(); len(e) != 2 || e[0] != `RateLimitPolicy shop/daily: User "jane" ended "b", confirmed by 1 of 2 replicas of Limiter edge/main` {
		t.Errorf("events %q", e)
	}
}

// A user who is only a responder cannot list bypasses, and so does not know the policy.
func TestRecordBypass_AnEndWithoutPolicyIsRecordedOnThatOfTheBypass(t *testing.T) {
	h := newBypassHarness(t)
	got := h.replica(200, `{"name":"b","policy":"shop/daily","identifier":"5f3a"}`)
	h.call("jane", "POST", "edge/main/bypasses/end", `{"name":"b"}`)
	want := `RateLimitPolicy shop/daily: User "jane" ended "b", confirmed by 1 of 1 replicas of Limiter edge/main`
	if e := h.events(); !slices.Equal(e, []string{want}) || !slices.Equal(*got, []string{`{"name":"b"}`}) {
		t.Errorf("%q, want %q; forwarded %q", e, want, *got)
	}
	for answer, event := range map[int]string{
		503: `Limiter edge/main: User "jane" tried to end "b", confirmed by 0 of 1 replicas of Limiter edge/main`, 404: "",
	} {
		h := newBypassHarness(t)
		h.replica(answer, `{}`)
		h.call("jane", "POST", "edge/main/bypasses/end", `{"name":"b"}`)
		if e := strings.Join(h.events(), ""); e != event || !strings.Contains(h.log.String(), "bypass ended") {
			t.Errorf("%d: event %q, want %q; log %s", answer, e, event, h.log.String())
		}
	}
}

func TestRecordBypass_DependsOnWhatReplicasAnswer(t *testing.T) {
	for _, c := range []struct {
		request      string
		status       int
		answer, want string
	}{
		{strings.Replace(aBypass, `"identifier":"sk-1"`, `"allIdentifiers":true`, 1), 200, `{"name":"b"}`, "lets all identifiers pass"},
		{aBypass, 503, `{}`, "tried to let an identifier pass"},
		{aBypass, 200, `{}`, "tried to let an identifier pass"},
		{aBypass, 404, `{"name":"b"}`, ""},
		{aBypass, 409, `{"name":"b"}`, ""},
	} {
		h := newBypassHarness(t)
		h.replica(c.status, c.answer)
		h.call("jane", "POST", "edge/main/bypasses", c.request)
		if e := h.events(); len(e) > 1 || strings.Join(e, "") == "" != (c.want == "") || !strings.Contains(strings.Join(e, ""), c.want) {
			t.Errorf("%s with %d %s: events %q, want %q", c.request, c.status, c.answer, e, c.want)
		}
		if !strings.Contains(h.log.String(), "caller=jane") {
			t.Errorf("not logged: %s", h.log.String())
		}
	}
}

func TestParseBypass_RejectsWhatTheOperatorSets(t *testing.T) {
	h := newBypassHarness(t)
	got := h.replica(200, `{}`)
	for _, body := range []string{
		`{"policy":"shop/daily","identifier":"a","seconds":1,"reason":"x","name":"mine"}`,
		`{"policy":"shop/daily","identifier":"a","seconds":1,"reason":"x","createdAt":"2030-01-01T00:00:00Z"}`,
		`{"policy":"shop/daily","identifier":"a","seconds":1,"reason":"x","createdBy":"joe"}`, aBypass + "x", "",
	} {
		if status, text := h.call("jane", "POST", "edge/main/bypasses", body); status != 400 || !strings.Contains(text, "the body is invalid") {
			t.Errorf("%s: %d %s", body, status, text)
		}
	}
	if status, _ := h.call("jane", "POST", "edge/main/bypasses/end", `{"name":"b","policies":"shop/daily"}`); status != 400 || len(*got) > 0 || len(h.events()) > 0 {
		t.Errorf("%d, forwarded %q, events %q", status, *got, h.events())
	}
}

// Replicas compare the times of bypasses, wherever the operator runs.
func TestParseBypass_CreatesABypassInWholeSecondsOfUTC(t *testing.T) {
	now := time.Date(2026, 5, 1, 2, 3, 4, 999_999_999, time.FixedZone("east", 3600))
	_, forward, bad := parseBypass([]byte(aBypass), now)
	if bad != nil || !strings.Contains(string(forward), `"createdAt":"2026-05-01T01:03:04Z"`) {
		t.Errorf("forwarded %s: %+v", forward, bad)
	}
}

func TestHandler_ListsBypassesForObservers(t *testing.T) {
	h := newHarness(t)
	h.allowed["olga get limiters.weir.dev/bypasses of edge/main"] = true
	h.replica(200, `{"bypasses":[]}`)
	if status, text := h.call("olga", "GET", "edge/main/bypasses", ""); status != 200 {
		t.Errorf("%d %s", status, text)
	}
	for _, path := range []string{"bypasses", "bypasses/end"} {
		if status, text := h.call("olga", "POST", "edge/main/"+path, aBypass); status != 403 || !strings.Contains(text, "weir-responder") {
			t.Errorf("%s: %d %s", path, status, text)
		}
	}
}

func TestRecordBypass_TheNameOfAnEndedBypassForgesNoEvent(t *testing.T) {
	h := newBypassHarness(t)
	h.replica(503, `{}`)
	h.call("jane", "POST", "edge/main/bypasses/end", `{"policy":"shop/daily","name":"b\nUser \"ceo\" lets all identifiers pass"}`)
	want := `RateLimitPolicy shop/daily: User "jane" tried to end "b\nUser \"ceo\" lets all identifiers pass", confirmed by 0 of 1 replicas of Limiter edge/main`
	if e := h.events(); !slices.Equal(e, []string{want}) {
		t.Errorf("%q, want %q", e, want)
	}
}

func TestRecordBypass_ALongIdentifierLeavesTheReasonInTheEvent(t *testing.T) {
	h := newBypassHarness(t)
	long := strings.Repeat("x", 2000)
	h.replica(200, `{"name":"b","identifier":"`+long+`"}`)
	h.call("jane", "POST", "edge/main/bypasses", `{"policy":"shop/daily","identifier":"`+long+`","seconds":86400,"reason":"INC-1"}`)
	if e := strings.Join(h.events(), ""); !strings.HasSuffix(e, ": INC-1") || !strings.Contains(e, `identifier "`+long[:100]+`…" pass`) {
		t.Errorf("%s", e)
	}
}

func TestRecordBypass_RecordsBlocks(t *testing.T) {
	h := newBypassHarness(t)
	got := h.replica(200, `{"name":"b","policy":"shop/daily","identifier":"5f3a","blocks":true}`)
	h.call("jane", "POST", "edge/main/bypasses", strings.Replace(aBypass, `{`, `{"blocks":true,`, 1))
	var forwarded adminapi.BypassRequest
	if err := json.Unmarshal([]byte((*got)[0]), &forwarded); err != nil || !forwarded.Blocks || !strings.HasPrefix(forwarded.Name, "block-") {
		t.Fatalf("forwarded %q (%v)", *got, err)
	}
	want := fmt.Sprintf(`RateLimitPolicy shop/daily: User "jane" blocks identifier "5f3a" for 30m0s with %s, confirmed by 1 of 1 replicas of Limiter edge/main: INC-1`, forwarded.Name)
	if e := h.events(); !slices.Equal(e, []string{want}) || !strings.Contains(h.log.String(), "block created") {
		t.Errorf("events %q, want %q; log %s", e, want, h.log.String())
	}
	h.call("jane", "POST", "edge/main/bypasses/end", `{"name":"b"}`)
	if !strings.Contains(h.log.String(), "block ended") {
		t.Errorf("log %s", h.log.String())
	}
}
