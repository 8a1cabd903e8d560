package ratelimitservice

import (
	"fmt"
	"strings"
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
		domain, path, _ := strings.Cut(rule.Policy, "|")
		list = append(list, LimitReport(fmt.Sprintf("%s.%s: %d per %v, algorithm %s, shadow_mode: %t",
			domain, strings.ReplaceAll(path, "|", "."), units, time.Duration(rule.WindowSeconds)*time.Second, rule.Algorithm, rule.Shadow)))
	}
	return list
}
