package lowering

import (
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/weir-dev/weir/api/v1alpha1/policyapi"
	"github.com/weir-dev/weir/internal/compile/rate"
	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/rules"
)

// The defaults of leases.
const (
	defaultLeasePercent = 10
	defaultLeaseAge     = time.Second
	// leaseAgePart: a lease lasts at most half of the window.
	leaseAgePart = 2
)

// validateLease returns the lease of a policy, nil without one.
func (v *validator) validateLease(spec *policyapi.RateLimitPolicySpec) *rules.Lease {
	if spec.Lease == nil {
		return nil
	}
	longest := limiter.MaxLeaseAge
	for _, r := range v.rates {
		longest = min(longest, r.Window/leaseAgePart)
	}
	if i := slices.IndexFunc(v.rates, func(r rate.Rate) bool { return r.Algorithm.Traits().Queues }); i >= 0 {
		v.report("spec.lease", "lease must not be set with algorithm %s, because replicas cannot divide the turns of one queue; "+
			"remove lease or use algorithm TokenBucket", v.rates[i].Algorithm)
	}
	lease := &rules.Lease{MaxPercent: defaultLeasePercent, MaxMilliseconds: defaultLeaseAge.Milliseconds()}
	if given := string(spec.Lease.MaxShare); given != "" {
		percent := spec.Lease.MaxShare.Int()
		if strconv.FormatInt(percent, 10)+"%" != given || percent < 1 || percent > limiter.MaxLeasePercent {
			v.report("spec.lease.maxShare", "maxShare must be a whole percentage from 1%% to %d%%, got %q", limiter.MaxLeasePercent, given)
		}
		lease.MaxPercent = percent
	}
	if given := string(spec.Lease.MaxAge); given != "" {
		age, err := parseLeaseAge(given)
		switch {
		case err != nil || age < limiter.MinLeaseAge || age > limiter.MaxLeaseAge:
			v.report("spec.lease.maxAge", "maxAge must be from %v to %v, such as 1s or 250ms, got %q",
				limiter.MinLeaseAge, limiter.MaxLeaseAge, given)
		case age > longest:
			v.report("spec.lease.maxAge", "maxAge must be at most half of the window; use a shorter maxAge or a longer window")
		}
		lease.MaxMilliseconds = age.Milliseconds()
	}
	return lease
}

// leaseWithin returns a lease for a window, nil without a lease.
func leaseWithin(lease *rules.Lease, window time.Duration) *rules.Lease {
	if lease == nil {
		return nil
	}
	return &rules.Lease{MaxPercent: lease.MaxPercent, MaxMilliseconds: min(lease.MaxMilliseconds, (window / leaseAgePart).Milliseconds())}
}

func parseLeaseAge(s string) (time.Duration, error) {
	if !regexp.MustCompile(`^([0-9]{1,5}h)?([0-9]{1,5}m)?([0-9]{1,5}s)?([0-9]{1,5}ms)?$`).MatchString(s) {
		return 0, strconv.ErrSyntax
	}
	return time.ParseDuration(s)
}
