// Package window parses and formats the windows of policies.
package window

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/weir-dev/weir/api/v1alpha1/policyapi"
	"github.com/weir-dev/weir/limiter"
)

// Parse parses a window such as "30s", "1h30m", "24h" or "1d". It must be from limiter.MinWindow to limiter.MaxFixedWindow.
func Parse(window policyapi.Duration) (time.Duration, error) {
	seconds, ok := parseDays(string(window))
	if !ok {
		seconds, ok = parseClock(string(window))
	}
	// Seconds are compared, because 9999999h exceeds the range of a Duration.
	if !ok || seconds < int64(limiter.MinWindow/time.Second) || seconds > int64(limiter.MaxFixedWindow/time.Second) {
		return 0, fmt.Errorf("window %q must be from 1s to 8760h, in whole hours, minutes and seconds (90s, 1h30m, 24h) "+
			"or in days alone (1d to 365d)", window)
	}
	return time.Duration(seconds) * time.Second, nil
}

// parseDays parses a number of days, such as "30d": at most three digits, without a leading zero.
func parseDays(s string) (seconds int64, ok bool) {
	digits, ok := strings.CutSuffix(s, "d")
	if !ok || strings.HasPrefix(digits, "0") {
		return 0, false
	}
	days, rest, ok := leadingNumber(digits, 3)
	return days * 24 * 60 * 60, ok && rest == ""
}

// parseClock parses hours, minutes and seconds, each at most once and in this order.
func parseClock(s string) (seconds int64, ok bool) {
	if s == "" {
		return 0, false
	}
	for _, unit := range []struct {
		name    string
		seconds int64
	}{{"h", 3600}, {"m", 60}, {"s", 1}} {
		number, rest, ok := leadingNumber(s, 5)
		if !ok {
			break
		}
		if rest, ok := strings.CutPrefix(rest, unit.name); ok {
			seconds += number * unit.seconds
			s = rest
		}
	}
	return seconds, s == ""
}

// leadingNumber splits off the decimal number of 1 to maxDigits digits at the beginning of s.
func leadingNumber(s string, maxDigits int) (number int64, rest string, ok bool) {
	end := 0
	for end < len(s) && '0' <= s[end] && s[end] <= '9' {
		end++
	}
	if end < 1 || end > maxDigits {
		return 0, s, false
	}
	number, err := strconv.ParseInt(s[:end], 10, 64)
	return number, s[end:], err == nil
}

// Format returns a window as Parse reads it, in the shortest form: 24h as 1d, 90s as 1m30s.
func Format(window time.Duration) string {
	const day = 24 * time.Hour
	if window%day == 0 {
		return fmt.Sprintf("%dd", window/day)
	}
	name := window.String()
	if shorter, ok := strings.CutSuffix(name, "m0s"); ok {
		name = shorter + "m"
	}
	if shorter, ok := strings.CutSuffix(name, "h0m"); ok {
		name = shorter + "h"
	}
	return name
}
