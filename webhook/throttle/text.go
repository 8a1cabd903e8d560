package throttle

import (
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/engine"
)

// Bounds of what is told, in characters.
const (
	maxName    = 128
	maxMessage = 1024
)

// clip makes text printable, for API servers drop a warning that is not, and shortens it to most characters.
func clip(text string, most int) string {
	text = strings.Map(func(c rune) rune { // bytes that are no UTF-8 come as U+FFFD
		if unicode.IsControl(c) {
			return unicode.ReplacementChar
		}
		return c
	}, text)
	if utf8.RuneCountInString(text) <= most {
		return text
	}
	return string([]rune(text)[:most-1]) + "…"
}

// whose reads "Tenant acme".
func countedFor(r *engine.Result, most int) string {
	if r.Identifier == limiter.Missing {
		return "writes without a " + r.Rule.Axis
	}
	return r.Rule.Axis + " " + clip(r.Identifier, most)
}

// limitOf reads "60 per 1m", or "60 per 1m (tier gold)".
func describeLimit(r *engine.Result) string {
	text := strconv.FormatInt(r.Decision.Limit, 10) + " per " + shortDuration(r.Window)
	if r.Tier != "" {
		text += " (tier " + r.Tier + ")"
	}
	return text
}

// short is d, of whole seconds, without the zeros at its end: "1h" for 1h0m0s.
func shortDuration(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// seconds is d ≥ 0 in whole seconds, rounded up.
func seconds(d time.Duration) int64 {
	whole := int64(d / time.Second)
	if d%time.Second > 0 {
		whole++
	}
	return whole
}
