package logtime

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/weir-dev/weir/internal/accesslog/logtext"
)

// Clock parses times. It remembers the last date, which is the same on most lines. It must not be used concurrently.
type Clock struct {
	// Location of times without an offset. Nil is UTC.
	Location *time.Location

	date     string // the text of day, and what follows it up to the hour
	midnight int64  // of date, in seconds since 1970, as if in UTC
}

// LenCLF is the length of the date and the time of day in the common log format, in bytes.
const LenCLF = len("02/Jan/2006:15:04:05")

// The lengths of the parts of other times.
const (
	lenCLFDate = len("02/Jan/2006")
	lenISODate = len("2006-01-02")
	lenISO     = len("2006-01-02T15:04:05")
)

// Parse returns the time in a text, in UTC: 02/Jan/2006:15:04:05 -0700, a time of RFC 3339, the same with a space in place of T, or a number of
// seconds, milliseconds, microseconds or nanoseconds since 1970.
func (c *Clock) Parse(text string) (time.Time, error) {
	switch {
	case len(text) >= LenCLF && text[2] == '/':
		return c.parseCLF(text)
	case len(text) >= lenISO && text[4] == '-':
		return c.parseISO(text)
	default:
		return parseEpoch(text)
	}
}

func (c *Clock) parseCLF(text string) (time.Time, error) {
	if text[:lenCLFDate] != c.date {
		day, okDay := digits(text[:2])
		month := monthOf(text[3:6])
		year, okYear := digits(text[7:11])
		if !okDay || !okYear || month == 0 || text[6] != '/' || !c.setDate(text[:lenCLFDate], year, month, day) {
			return time.Time{}, badTime(text)
		}
	}
	second, ok := secondOfDay(text[lenCLFDate+1 : LenCLF])
	if !ok || text[lenCLFDate] != ':' {
		return time.Time{}, badTime(text)
	}
	return c.finish(text, text[LenCLF:], second)
}

func (c *Clock) parseISO(text string) (time.Time, error) {
	if text[:lenISODate] != c.date {
		year, okYear := digits(text[:4])
		month, okMonth := digits(text[5:7])
		day, okDay := digits(text[8:10])
		if !okYear || !okMonth || !okDay || text[7] != '-' || !c.setDate(text[:lenISODate], year, month, day) {
			return time.Time{}, badTime(text)
		}
	}
	second, ok := secondOfDay(text[lenISODate+1 : lenISO])
	if t := text[lenISODate]; !ok || t != 'T' && t != ' ' && t != 't' {
		return time.Time{}, badTime(text)
	}
	return c.finish(text, text[lenISO:], second)
}

// setDate remembers a date. It returns false for days that do not exist.
func (c *Clock) setDate(text string, year, month, day int) bool {
	date := time.Date(year, time.Month(month), day, 0, 0, 0, 0, time.UTC)
	if date.Day() != day || int(date.Month()) != month {
		return false
	}
	c.date, c.midnight = strings.Clone(text), date.Unix()
	return true
}

// finish returns the time at a second of the date, with the fraction and the offset that follow in rest.
func (c *Clock) finish(text, rest string, second int64) (time.Time, error) {
	unix, nanosecond := c.midnight+second, int64(0)
	if rest != "" && (rest[0] == '.' || rest[0] == ',') {
		width := 1
		for width < len(rest) && logtext.IsDigit(rest[width]) {
			width++
		}
		if nanosecond = fraction(rest[1:width]); width == 1 {
			return time.Time{}, badTime(text)
		}
		rest = rest[width:]
	}
	switch rest = strings.TrimPrefix(rest, " "); {
	case rest == "Z" || rest == "z" || rest == "+0000" || rest == "UTC":
		return time.Unix(unix, nanosecond).UTC(), nil
	case rest == "" && (c.Location == nil || c.Location == time.UTC):
		return time.Unix(unix, nanosecond).UTC(), nil
	case rest == "":
		utc := time.Unix(unix, nanosecond).UTC()
		return time.Date(utc.Year(), utc.Month(), utc.Day(), utc.Hour(), utc.Minute(), utc.Second(), utc.Nanosecond(), c.Location).UTC(), nil
	}
	offset, ok := parseOffset(rest)
	if !ok {
		return time.Time{}, badTime(text)
	}
	return time.Unix(unix-offset, nanosecond).UTC(), nil
}

// parseOffset returns the seconds of +0700 or +07:00.
func parseOffset(text string) (int64, bool) {
	digitsOf := text[1:]
	if len(digitsOf) == 5 && digitsOf[2] == ':' {
		digitsOf = digitsOf[:2] + digitsOf[3:]
	}
	n, ok := digits(digitsOf)
	if len(digitsOf) != 4 || !ok || n > 2359 || n%100 > 59 || text[0] != '+' && text[0] != '-' {
		return 0, false
	}
	offset := int64(n/100*3600 + n%100*60)
	if text[0] == '-' {
		offset = -offset
	}
	return offset, true
}

// secondOfDay returns the seconds of 15:04:05. A leap second is the second before it.
func secondOfDay(text string) (int64, bool) {
	hour, okHour := digits(text[:2])
	minute, okMinute := digits(text[3:5])
	second, okSecond := digits(text[6:8])
	ok := okHour && okMinute && okSecond && text[2] == ':' && text[5] == ':' && hour <= 23 && minute <= 59 && second <= 60
	return int64(hour*3600 + minute*60 + min(second, 59)), ok
}

// digits returns the number that text is, which must have only digits.
func digits(text string) (n int, ok bool) {
	for i := range len(text) {
		if !logtext.IsDigit(text[i]) {
			return 0, false
		}
		n = n*10 + int(text[i]-'0')
	}
	return n, text != "" && len(text) <= 9
}

// fraction returns the nanoseconds of the digits after a decimal point.
func fraction(text string) (nanosecond int64) {
	const width = 9
	for i := range width {
		nanosecond *= 10
		if i < len(text) {
			nanosecond += int64(text[i] - '0')
		}
	}
	return nanosecond
}

func monthOf(text string) int {
	const names = "JanFebMarAprMayJunJulAugSepOctNovDec"
	if index := strings.Index(names, text); index >= 0 && index%3 == 0 {
		return index/3 + 1
	}
	return 0
}

// parseEpoch returns the time of a number of seconds since 1970, or of milliseconds, microseconds or nanoseconds if it is that large.
func parseEpoch(text string) (time.Time, error) {
	const earliest = 1e8 // in 1973: smaller numbers are durations and counts
	whole, decimals, _ := strings.Cut(text, ".")
	if n, err := strconv.ParseInt(whole, 10, 64); err == nil && n >= earliest && strings.Trim(decimals, "0123456789") == "" {
		switch {
		case n < 1e11:
			return time.Unix(n, fraction(decimals)).UTC(), nil
		case n < 1e14:
			return time.UnixMilli(n).Add(time.Duration(fraction(decimals) / 1000)).UTC(), nil
		case decimals != "": // of a smaller unit
		case n < 1e17:
			return time.UnixMicro(n).UTC(), nil
		default:
			return time.Unix(0, n).UTC(), nil
		}
	}
	if f, err := strconv.ParseFloat(text, 64); err == nil && f >= earliest && f < 1e11 { // 1.7e9, as some encoders of JSON write numbers
		s, part := math.Modf(f)
		return time.Unix(int64(s), int64(part*1e9)).UTC(), nil
	}
	return time.Time{}, badTime(text)
}

func badTime(text string) error {
	return fmt.Errorf("%s is no time: must be as 02/Jan/2006:15:04:05 -0700, 2006-01-02T15:04:05Z, or seconds since 1970", logtext.Quote(text))
}

// ParseDuration returns the duration of a decimal number of a unit. A negative one is absent: the request did not get so far.
func ParseDuration(text string, unit time.Duration) (time.Duration, error) {
	if n, ok := digits(text); ok {
		return time.Duration(n) * unit, nil
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(f) || f > float64(math.MaxInt64/int64(unit)) {
		return 0, fmt.Errorf("%s is no duration: must be a number", logtext.Quote(text))
	}
	return time.Duration(max(f, 0) * float64(unit)), nil
}
