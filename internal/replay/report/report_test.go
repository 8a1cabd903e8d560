package report_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"github.com/weir-dev/weir/internal/replay/report"
	"github.com/weir-dev/weir/internal/replay/report/chart"
	"github.com/weir-dev/weir/internal/replay/result"
)

// midnight is the time of the first request of results.
var midnight = time.Date(2026, time.November, 2, 0, 0, 0, 0, time.UTC)

// hostile are identifiers of clients that attack the reader of the report.
func hostile() []string {
	return []string{
		`<script>alert(1)</script>`, `"><img src=x onerror=alert(1)>`, `</title><svg onload=alert(1)>`, `</style><link rel=stylesheet href=//evil.example/x>`,
		"{{.CSP}}", "javascript:alert(1)", "\u202egnp.exe", "a\x00\x1b[31mb\nc", `' onmouseover='alert(1)`, strings.Repeat("A", 1<<20), strings.Repeat("\u202e", 1<<19),
	}
}

// full returns a result that has every part.
func full() *result.Result {
	r := &result.Result{
		From: midnight, To: midnight.Add(24*time.Hour - time.Second), BucketSeconds: 600, SeriesStart: midnight, Interrupted: true,
		Total: result.Total{Requests: 144_000, Matched: 140_000, Denied: 720, ShadowDenied: 10, DeniedByAny: 725},
		Input: result.Input{
			Files: []result.File{{Name: "access.log", Format: "nginx"}}, Lines: 144_100, Bad: 100,
			Errors: []result.Bad{{File: "access.log", Line: 7, Reason: "no time", Text: hostile()[0]}}, Skipped: []result.Skipped{{Reason: "no HTTP request", Lines: 3}},
		},
		Proposals: []result.Proposal{{Name: "shop/tenant", YAML: "kind: RateLimitPolicy\nmetadata: {name: </pre><script>}\n"}},
		Notes:     []string{"The log has times of 1s."},
		Difference: &result.Difference{
			NewlyDenied: 700, NewlyAllowed: 3, Policies: []result.PolicyDifference{{Name: "shop/api", Change: result.Changed, Denied: 720, DeniedBefore: 23}},
			TopDenied: []result.Affected{{Policy: "shop/api", Identifier: hostile()[1], Requests: 600}},
		},
	}
	at := midnight.Add(3 * time.Hour)
	p := result.Policy{
		Name: "shop/api", Axis: "Tenant", Algorithm: "SlidingWindowCounter", Limit: 60, WindowSeconds: 60, Matched: 140_000, Allowed: 139_280, Denied: 720, Identifiers: 5000,
		DeniedIdentifiers: 12, Uncharged: 2, Unlimited: 3, MissingIdentifier: 4, PeakUse: &result.Use{Identifier: hostile()[2], Used: 60, Limit: 60, At: at},
		FirstDenial: &at, LastDenial: &at, BusiestMinute: &result.Span{Start: at}, BusiestHour: &result.Span{Start: at},
		Tiers:      []result.Tier{{Name: "paid", Limit: 600}, {Name: "staff", Unlimited: true}, {Limit: 60}},
		HoursOfDay: make([]result.Cell, 24), Use: []result.Bin{{From: 1, To: 1, Identifiers: 4000}, {From: 2, To: 60, Identifiers: 988}, {From: 61, To: 100, Identifiers: 12}},
		Curve: &result.Curve{SampledOneIn: 4, Requests: 35_000, Identifiers: 1250, Points: []result.CurvePoint{
			{Limit: 10, DeniedRequests: 7000, DeniedIdentifiers: 200}, {Limit: 60, DeniedRequests: 180, DeniedIdentifiers: 3}, {Limit: 100},
		}},
		Suggestions: []result.Suggestion{{WindowSeconds: 60, Algorithm: "SlidingWindowCounter", Limit: 80, Requests: 35_000, Identifiers: 1250, RedisBytes: 5 << 20}},
	}
	for i := range p.HoursOfDay {
		p.HoursOfDay[i] = result.Cell{Requests: int64(i), Denied: int64(i / 3)}
	}
	for i := range 144 {
		cell := result.Cell{Requests: 1000, Denied: int64(i % 11)}
		p.Series, r.Series = append(p.Series, cell), append(r.Series, cell)
	}
	for i, name := range hostile() {
		p.Top = append(p.Top, result.Identifier{Identifier: name, Cell: result.Cell{Requests: 100, Denied: int64(50 - i)}, Peak: 70, FirstDenial: at})
	}
	shadow := p
	shadow.Name, shadow.Shadow, shadow.TiersOnly, shadow.Limit, shadow.Denied = hostile()[3], true, true, 0, 10
	silent := result.Policy{Name: "shop/admin", HoursOfDay: make([]result.Cell, 24), Series: make([]result.Cell, 144), Silent: "No request has the path /admin."}
	r.Policies = []result.Policy{silent, p, shadow}
	return r
}

func write(t testing.TB, r *result.Result) string {
	t.Helper()
	var b bytes.Buffer
	if err := report.Write(&b, r); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// expectNoScript parses a page as a browser does.
func expectNoScript(t *testing.T, text string) {
	t.Helper()
	tokens := html.NewTokenizer(strings.NewReader(text))
	styles := 0
	for tokens.Next() != html.ErrorToken {
		token := tokens.Token()
		if token.Type != html.StartTagToken && token.Type != html.SelfClosingTagToken {
			continue
		}
		switch token.Data {
		case "script", "img", "link", "iframe", "object", "embed", "form", "input", "base", "image", "use", "foreignobject", "audio", "video":
			t.Errorf("element %s", token)
		case "style":
			styles++
		}
		for _, a := range token.Attr {
			isAnchor := token.Data == "a" && a.Key == "href" && strings.HasPrefix(a.Val, "#")
			if (a.Key == "href" || a.Key == "src" || a.Key == "style" || strings.HasPrefix(a.Key, "on")) && !isAnchor {
				t.Errorf("attribute %s of %s", a.Key, token)
			}
		}
	}
	if err := tokens.Err(); !errors.Is(err, io.EOF) || styles != 1 {
		t.Errorf("%v, %d style sheets", err, styles)
	}
}

// A report is read in a browser, and its identifiers come from the clients of an API.
func TestWrite_HasNoScriptAndLoadsNothing(t *testing.T) {
	text := write(t, full())
	expectNoScript(t, text)
	for _, forbidden := range []string{"http://", "https://", "url(", "@import", "\u202e", "\x00", "\x1b"} {
		if strings.Contains(text, forbidden) {
			t.Errorf("the report has %q", forbidden)
		}
	}
	if !strings.Contains(text, `<meta http-equiv="Content-Security-Policy" content="default-src &#39;none&#39;; style-src &#39;sha256-`) {
		t.Error("no content security policy")
	}
}

func TestWrite_CutsLongIdentifiers(t *testing.T) {
	if n := len(write(t, full())); n > 300_000 {
		t.Errorf("%d bytes", n)
	}
}

// Each picture has a text for readers who do not see it, and its numbers in a table.
func TestWrite_HasTheNumbersOfEachPicture(t *testing.T) {
	text := write(t, full())
	pictures, numbers := strings.Count(text, "<svg "), strings.Count(text, "<details>")
	if labels := strings.Count(text, `role="img" aria-label="`); labels != pictures || pictures != 2+2*4 {
		t.Errorf("%d pictures, %d labels", pictures, labels)
	}
	if numbers != 2+2*3 { // the two curves of a policy have one table
		t.Errorf("%d tables", numbers)
	}
	for _, want := range []string{
		"The replay was interrupted", "Policy shop/admin matched no request. No request has the path /admin.", "100 of 144,100 lines could not be read",
		"one in 4 identifiers", "limit 60", "suggested 80", "Newly denied", "kind: RateLimitPolicy", "no HTTP request", "unlimited", "5,120 KiB", "2026-11-02 03:00:00",
		"limit 60: 180 denied requests (0.514%)", "61 to 100 units: 12 identifiers (0.24%)",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the report lacks %q", want)
		}
	}
}

func TestWrite_HasNoInvalidNumber(t *testing.T) {
	empty := &result.Result{}
	one := full()
	one.Policies[1].Use, one.Policies[1].Top, one.Policies[1].Curve.Points = nil, nil, one.Policies[1].Curve.Points[:1]
	one.Series, one.Policies[1].Series = one.Series[:1], one.Series[:1]
	many := full()
	for i := range 100 {
		p := many.Policies[1]
		p.Name = fmt.Sprintf("shop/p%d", i)
		many.Policies = append(many.Policies, p)
	}
	for name, r := range map[string]*result.Result{"empty": empty, "one": one, "many": many} {
		text := write(t, r)
		if found := regexp.MustCompile(`NaN|Inf|%!|"-\d`).FindString(text); found != "" {
			t.Errorf("%s: the report has %q", name, found)
		}
	}
}

func TestWriteDocument_HasNoScriptAndLoadsNothing(t *testing.T) {
	for _, text := range hostile() {
		var b bytes.Buffer
		d := &report.Document{Title: text, Lead: text, Generator: text, Sections: []*report.Section{{
			Title: text, Text: text, Picture: (&chart.Plot{Title: text, Label: text, Marks: []chart.Mark{{Text: text}}}).Draw(), Heads: []string{text, text}, Rows: [][]string{{text, text}},
		}}}
		if err := report.WriteDocument(&b, d); err != nil {
			t.Fatal(err)
		}
		expectNoScript(t, b.String())
	}
}

// A policy without a limit yet is replayed with the largest one, which would press all bars of the distribution to one side.
func TestWrite_ShowsNoLimitOfAProposedPolicy(t *testing.T) {
	for _, isProposed := range []bool{false, true} {
		r := full()
		at := slices.IndexFunc(r.Policies, func(p result.Policy) bool { return p.PeakUse != nil && !p.TiersOnly })
		r.Policies = r.Policies[at : at+1]
		r.Policies[0].Proposed, r.Policies[0].Limit, r.Policies[0].Burst = isProposed, 1_000_000_000, 0
		r.Policies[0].PeakUse.Limit = 1_000_000_000
		var b bytes.Buffer
		if err := report.Write(&b, r); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(b.String(), "1,000,000,000") == isProposed || strings.Contains(b.String(), "no limit yet") != isProposed {
			t.Errorf("proposed %v: the page has the limit: %v", isProposed, !isProposed)
		}
	}
}
