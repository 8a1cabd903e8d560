package reply

import (
	"strings"
	"time"
)

// ShortDuration formats d, a number of whole seconds, without trailing zeros: "24h" for 24h0m0s. [time.ParseDuration] reads it.
func ShortDuration(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}
