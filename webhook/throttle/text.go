package throttle

import (
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/engine"
	"github.com/weir-dev/weir/limiter/reply"
)

// Maximum lengths in messages, in characters.
const (
	maxName    = 128
	maxMessage = 1024
)

// clip makes text printable, because API servers drop warnings that are not, and shortens it to the given number of characters.
func clip(text string, most int) string {
	text = strings.Map(func(c rune) rune { // invalid UTF-8 becomes U+FFFD
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

// countedFor returns the identifier that was counted: "Tenant acme".
func countedFor(r *engine.Result, most int) string {
	switch r.Identifier {
	case limiter.Missing:
		return "writes without a " + r.Rule.Axis
	case limiter.Unreadable:
		return "writes with an unreadable " + r.Rule.Axis
	}
	return r.Rule.Axis + " " + clip(r.Identifier, most)
}

// describeLimit returns "60 per 1m", or "60 per 1m (tier gold)".
func describeLimit(r *engine.Result) string {
	text := strconv.FormatInt(r.Decision.Limit, 10) + " per " + reply.ShortDuration(r.Window)
	if r.Tier != "" {
		text += " (tier " + r.Tier + ")"
	}
	return text
}

// seconds returns d ≥ 0 in whole seconds, rounded up.
func seconds(d time.Duration) int64 {
	whole := int64(d / time.Second)
	if d%time.Second > 0 {
		whole++
	}
	return whole
}
