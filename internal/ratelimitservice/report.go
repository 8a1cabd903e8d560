package ratelimitservice

import (
	"fmt"
	"time"

	"github.com/weir-dev/weir/limiter/rules"
)

// LimitReport describes a limit in one line.
type LimitReport string

// Report describes the limits of a set, sorted by domain and path.
func Report(set rules.Set, limits map[string]Limit) []LimitReport {
	list := make([]LimitReport, 0, len(set.Rules))
	for i := range set.Rules {
		rule := &set.Rules[i]
		units := rule.Units
		if limits[rule.Policy].Zero {
			units = 0
		}
		list = append(list, LimitReport(fmt.Sprintf("%s: %d per %v, algorithm %s, shadow_mode: %t",
			displayName(rule.Policy), units, time.Duration(rule.WindowSeconds)*time.Second, rule.Algorithm, rule.Shadow)))
	}
	return list
}
