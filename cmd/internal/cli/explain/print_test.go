package explain

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-dev/weir/limiter/admin"
	"github.com/weir-dev/weir/limiter/reply"
)

func example() *admin.Explanation {
	return &admin.Explanation{
		Revision: "sha256:1", Answer: reply.Answer{Policy: "shop/b", RetryAfterMs: new(int64(1500))}, OtherPolicies: 2,
		Policies: []admin.Policy{
			{Policy: "shop/a", Outcome: admin.NoMatch, Reason: "method is \"GET\"; the policy matches POST", Field: "match.http.methods"},
			{Policy: "shop/b", Shadow: true, Outcome: admin.Denies, Reason: "why", Charge: &admin.Charge{
				Identifier: "a\tb", From: "header x", Tier: "free", Cost: 1, Algorithm: "FixedWindow", Limit: 10, Window: "1m0s", Key: "weir:k",
				Used: new(int64(10)), Remaining: new(int64(0)), ResetAfterMs: 61_200,
			}},
		},
	}
}

func TestPrint_Tables(t *testing.T) {
	for format, want := range map[string]string{
		Table: `Denied by shop/b. Retry after 2s.

POLICY           OUTCOME  IDENTIFIER  TIER  COST  LIMIT      USED  REMAINING  REASON
shop/b (Shadow)  Denies   "a\tb"      free  1     10 per 1m  10    0          why
shop/a           NoMatch  -           -     -     -          -     -          method is "GET"; the policy matches POST

Policies for other domains, which are not listed: 2. --all lists them.

Revision: sha256:1
`,
		Wide: `Denied by shop/b. Retry after 2s.

POLICY           OUTCOME  IDENTIFIER  TIER  COST  LIMIT      USED  REMAINING  FROM      ALGORITHM    RESET  KEY     REASON
shop/b (Shadow)  Denies   "a\tb"      free  1     10 per 1m  10    0          header x  FixedWindow  1m2s   weir:k  why
shop/a           NoMatch  -           -     -     -          -     -          -         -            -      -       method is "GET"; the policy matches POST

Policies for other domains, which are not listed: 2. --all lists them.

Revision: sha256:1
`,
	} {
		var b bytes.Buffer
		if err := Print(&b, format, example()); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, b.String()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", format, diff)
		}
	}
}

func TestVerdict(t *testing.T) {
	for want, x := range map[string]admin.Explanation{
		"Allowed: no enforced policy limits the request.":                                                  {Answer: reply.Answer{Allowed: true}},
		"Allowed. p has the fewest units left in relation to its limit.":                                   {Answer: reply.Answer{Allowed: true, Policy: "p"}},
		"Allowed after a delay of 20ms. p has the fewest units left in relation to its limit.":             {Answer: reply.Answer{Allowed: true, Policy: "p", DelayMs: 20}},
		"Denied by p. No retry can succeed: the cost is above the limit.":                                  {Answer: reply.Answer{Policy: "p"}},
		"Denied by p, from the known denials of the replica. Retry after 20ms.":                            {Answer: reply.Answer{Policy: "p", RetryAfterMs: new(int64(20)), Source: "cache"}},
		"Rejected with an error by p: Redis is unavailable, and the policy has onStoreFailure: Deny.":      {RefusedBy: "p"},
		"Allowed: no policy limits this write. The outcomes below are those that it would have otherwise.": {Exempt: true, Answer: reply.Answer{Allowed: true}},
	} {
		if got := Verdict(&x); got != want {
			t.Errorf("%s\nwant %s", got, want)
		}
	}
}
