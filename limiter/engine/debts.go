package engine

import (
	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/rules/matching"
)

// denyAll appends a charge that no limit admits to the charges of all requests, so that the store counts only their debts. It reports false
// if they have no debts.
func (s *scratch) denyAll() bool {
	for i := range s.charged {
		c := &s.charged[i].charge
		if !c.CountsAlways() {
			continue
		}
		s.charged = append(s.charged, ruleCharge{
			rule: &matching.Compiled{}, // enforced, and without a policy
			// A suffix keeps the slot of the debt's key.
			charge: limiter.Charge{Key: c.Key + "%denied", Limit: c.Limit, Cost: 2 * limiter.MaxUnits},
		})
		return true
	}
	return false
}
