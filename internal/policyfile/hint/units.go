package hint

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// units are the lengths of time by their names in other programs.
func units() map[string]time.Duration {
	const day = 24 * time.Hour
	lengths := map[string]time.Duration{}
	for length, names := range map[time.Duration]string{
		time.Millisecond: "ms msec msecs millis millisecond milliseconds",
		time.Second:      "s sec secs second seconds",
		time.Minute:      "m min mins minute minutes",
		time.Hour:        "h hr hrs hour hours",
		day:              "d day days",
		7 * day:          "w wk week weeks",
	} {
		for name := range strings.FieldsSeq(names) {
			lengths[name] = length
		}
	}
	return lengths
}

var lengthPart = regexp.MustCompile(`^(\d+(?:\.\d+)?)?\s*([a-z]*)[\s,]*`)

// parseDuration reads a length of time in the notations of other programs, and returns it as a field of the Weir API has it: "60" and "60 sec" are 1m, "1w" is
// 7d, "1.5h" is 1h30m, "PT1M" is 1m, and "minute" is 1m.
func parseDuration(text string) (canonical string, ok bool) {
	rest := strings.ToLower(strings.TrimSpace(text))
	if iso, isISO := strings.CutPrefix(rest, "p"); isISO {
		rest = strings.ReplaceAll(iso, "t", "")
	}
	rest = strings.TrimPrefix(rest, "per ")
	lengths, total, onlyNumber := units(), 0.0, rest
	for rest != "" {
		m := lengthPart.FindStringSubmatch(rest)
		if m == nil || m[0] == "" {
			return "", false
		}
		amount := 1.0
		if m[1] != "" {
			amount, _ = strconv.ParseFloat(m[1], 64)
		}
		unit := time.Second
		if m[2] != "" {
			var known bool
			if unit, known = lengths[m[2]]; !known {
				return "", false
			}
		} else if m[1] != onlyNumber {
			return "", false
		}
		total += amount * float64(unit)
		rest = rest[len(m[0]):]
	}
	const most = 100 * 366 * 24 * time.Hour
	if total < float64(time.Millisecond) || total > float64(most) {
		return "", false
	}
	return formatDuration(time.Duration(total)), true
}

// formatDuration returns a duration in the form of the Weir API: days alone, or hours, minutes, seconds and milliseconds.
func formatDuration(d time.Duration) string {
	const day = 24 * time.Hour
	if d%day == 0 {
		return fmt.Sprintf("%dd", d/day)
	}
	var b strings.Builder
	for _, u := range []struct {
		length time.Duration
		name   string
	}{{time.Hour, "h"}, {time.Minute, "m"}, {time.Second, "s"}, {time.Millisecond, "ms"}} {
		if n := d / u.length; n > 0 {
			fmt.Fprintf(&b, "%d%s", n, u.name)
			d %= u.length
		}
	}
	return b.String()
}

var clock = regexp.MustCompile(`^(\d{1,4}):([0-5]\d)(?::([0-5]\d))?$`)

// parseClock returns what a time such as 1:30 or 1:30:00 can mean as a duration: minutes and seconds first, or hours and minutes. YAML 1.1 has such numbers
// in base 60.
func parseClock(text string) (readings []string) {
	m := clock.FindStringSubmatch(text)
	if m == nil {
		return nil
	}
	units := [][]time.Duration{{time.Minute, time.Second}, {time.Hour, time.Minute}}
	if m[3] != "" {
		units = [][]time.Duration{{time.Hour, time.Minute, time.Second}}
	}
	for _, lengths := range units {
		var total time.Duration
		for i, length := range lengths {
			n, _ := strconv.Atoi(m[i+1]) // digits
			total += time.Duration(n) * length
		}
		if total > 0 {
			readings = append(readings, formatDuration(total))
		}
	}
	return readings
}

var percentage = regexp.MustCompile(`^(\d+(?:\.\d+)?)\s*(%|percent)?$`)

// parsePercentage returns a percentage in the form of the Weir API: "80", "80 %" and "0.8" are 80%.
func parsePercentage(text string) (canonical string, ok bool) {
	m := percentage.FindStringSubmatch(strings.ToLower(strings.TrimSpace(text)))
	if m == nil {
		return "", false
	}
	f, err := strconv.ParseFloat(m[1], 64)
	if m[2] == "" && f < 1 {
		f *= 100
	}
	if f = math.Round(f); err != nil || f < 1 || f > 100 {
		return "", false
	}
	return fmt.Sprintf("%d%%", int(f)), true
}

var rate = regexp.MustCompile(`^([\d_, kKmM.]+?)\s*(?:r|req|reqs|requests?)?\s*(?:/|per|p(?:er)?_)\s*(\S.*)$`)

// parseRate reads a rate such as "100/m", "100 r/s", "100 per minute" and "1k/10m".
func parseRate(value any) (limit int64, window string, ok bool) {
	text, _ := value.(string)
	m := rate.FindStringSubmatch(strings.TrimSpace(text))
	if m == nil {
		return 0, "", false
	}
	limit, isNumber := parseInteger(strings.TrimSpace(m[1]))
	window, isDuration := parseDuration(m[2])
	return limit, window, isNumber && isDuration
}
