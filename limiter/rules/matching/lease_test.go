package matching_test

import (
	"testing"
	"time"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/rules"
)

func TestNewIndex_AcceptsLeasesWithinTheirBounds(t *testing.T) {
	for _, test := range []struct{ window, percent, milliseconds int64 }{
		{60, 1, 1000}, {60, 50, 1000}, {60, 10, 100}, {60, 10, 10_000}, {1, 10, 500}, {20, 10, 10_000},
	} {
		r := rule("shop/a")
		r.Algorithm, r.WindowSeconds = limiter.TokenBucket, test.window
		r.Lease = &rules.Lease{MaxPercent: test.percent, MaxMilliseconds: test.milliseconds}
		m := index(t, r).Match(nil, request("GET - /"))
		want := limiter.LeaseTerms{MaxPercent: test.percent, MaxAge: time.Duration(test.milliseconds) * time.Millisecond}
		if len(m) != 1 || m[0].Rule.Leases == nil || *m[0].Rule.Leases != want {
			t.Errorf("%+v: %+v", test, m)
		}
	}
	if m := index(t, rule("shop/a")).Match(nil, request("GET - /")); m[0].Rule.Leases != nil {
		t.Errorf("leases %+v of a rule without", m[0].Rule.Leases)
	}
}
