package chart

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Axis is the range of values along one side of a plot.
type Axis struct {
	Min, Max float64
	// Log is true for a logarithmic axis. Values below Min are at Min.
	Log   bool
	Ticks []Tick
	Title string
}

// Tick is a value with a label.
type Tick struct {
	Value float64
	Label string
}

// at returns the part of the axis at a value, from 0 to 1.
func (a *Axis) at(value float64) float64 {
	low, high := a.Min, a.Max
	if a.Log {
		low, high, value = math.Log(low), math.Log(high), math.Log(max(value, a.Min))
	}
	if high <= low {
		return 0
	}
	return min(max((value-low)/(high-low), 0), 1)
}

// Counts returns an axis from 0 to at least largest, with whole numbers.
func Counts(largest float64, title string) Axis {
	step := niceStep(max(largest, 1)/4, 1)
	a := Axis{Max: math.Ceil(max(largest, 1)/step) * step, Title: title}
	for value := 0.0; value <= a.Max+step/2; value += step {
		a.Ticks = append(a.Ticks, Tick{value, Short(value)})
	}
	return a
}

// Shares returns an axis of shares from 0 to at least largest, in percent.
func Shares(largest float64, title string) Axis {
	largest = min(max(largest, 1e-6), 1)
	step := niceStep(largest*100/5, 0)
	a := Axis{Max: min(math.Ceil(largest*100/step-1e-9)*step, 100) / 100, Title: title}
	for i := 0; float64(i)*step <= a.Max*100+step/1000; i++ {
		value := float64(i) * step
		a.Ticks = append(a.Ticks, Tick{value / 100, strconv.FormatFloat(value, 'g', 3, 64) + "%"})
	}
	return a
}

// niceStep returns the smallest of 1, 2, 5, 10, 20 … that is not below a number. least bounds it, unless it is 0.
func niceStep(number, least float64) float64 {
	if number <= least {
		return least
	}
	unit := math.Pow(10, math.Floor(math.Log10(number)))
	for _, factor := range []float64{1, 2, 5, 10} {
		if factor*unit >= number*(1-1e-9) {
			return factor * unit
		}
	}
	return 10 * unit
}

// LogCounts returns a logarithmic axis of whole numbers from smallest, at least 1, to largest.
func LogCounts(smallest, largest float64, title string) Axis {
	a := Axis{Min: max(smallest, 1), Log: true, Title: title}
	a.Max = max(largest, a.Min*2)
	decades := math.Log10(a.Max / a.Min)
	factors := []float64{1, 2, 5}
	if decades > 4 {
		factors = []float64{1}
	}
	every := int(math.Max(1, math.Ceil(decades/8)))
	for exponent := int(math.Floor(math.Log10(a.Min))); exponent <= int(math.Ceil(math.Log10(a.Max))); exponent += every {
		for _, factor := range factors {
			value := factor * math.Pow(10, float64(exponent))
			if value >= a.Min*(1-1e-9) && value <= a.Max*(1+1e-9) {
				a.Ticks = append(a.Ticks, Tick{value, Short(value)})
			}
		}
	}
	return a
}

// Times returns an axis of times in UTC, as seconds since 1970.
func Times(from, to time.Time) Axis {
	a := Axis{Min: float64(from.Unix()), Max: float64(to.Unix())}
	span := to.Sub(from)
	step, layout := 24*time.Hour, "Jan 2"
	for _, one := range []struct {
		step   time.Duration
		layout string
	}{
		{time.Second, "15:04:05"},
		{5 * time.Second, "15:04:05"},
		{15 * time.Second, "15:04:05"},
		{30 * time.Second, "15:04:05"},
		{time.Minute, "15:04"},
		{5 * time.Minute, "15:04"},
		{15 * time.Minute, "15:04"},
		{30 * time.Minute, "15:04"},
		{time.Hour, "15:04"},
		{2 * time.Hour, "15:04"},
		{4 * time.Hour, "15:04"},
		{8 * time.Hour, "Jan 2 15:04"},
		{24 * time.Hour, "Jan 2"},
		{2 * 24 * time.Hour, "Jan 2"},
		{7 * 24 * time.Hour, "Jan 2"},
		{28 * 24 * time.Hour, "Jan 2"},
		{91 * 24 * time.Hour, "Jan 2006"},
	} {
		if step, layout = one.step, one.layout; span <= 9*step {
			break
		}
	}
	for span > 9*step {
		step *= 2
	}
	for at := from.Truncate(step); !at.After(to); at = at.Add(step) {
		if at.Before(from) {
			continue
		}
		label := at.UTC().Format(layout)
		if layout == "15:04" && at.Hour() == 0 && at.Minute() == 0 {
			label = at.UTC().Format("Jan 2")
		}
		a.Ticks = append(a.Ticks, Tick{float64(at.Unix()), label})
	}
	return a
}

// Elapsed returns an axis of the time since a beginning, in seconds.
func Elapsed(total time.Duration) Axis {
	a := Axis{Max: total.Seconds()}
	step := time.Duration(0)
	for _, step = range []time.Duration{
		time.Second, 5 * time.Second, 10 * time.Second, 30 * time.Second, time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 30 * time.Minute,
		time.Hour, 2 * time.Hour, 6 * time.Hour, 24 * time.Hour,
	} {
		if total <= 10*step {
			break
		}
	}
	for at := time.Duration(0); at <= total; at += step {
		label := at.String()
		if strings.HasSuffix(label, "m0s") {
			label = strings.TrimSuffix(label, "0s")
		}
		if strings.HasSuffix(label, "h0m") {
			label = strings.TrimSuffix(label, "0m")
		}
		a.Ticks = append(a.Ticks, Tick{at.Seconds(), label})
	}
	return a
}

// Short returns a number for an axis: 950, 1.5k, 20M.
func Short(number float64) string {
	for _, unit := range []struct {
		size float64
		name string
	}{{1e9, "G"}, {1e6, "M"}, {1e3, "k"}} {
		if math.Abs(number) >= unit.size {
			return strconv.FormatFloat(math.Round(number/unit.size*100)/100, 'f', -1, 64) + unit.name
		}
	}
	return strconv.FormatFloat(math.Round(number*100)/100, 'f', -1, 64)
}

// Count returns a whole number with commas: 1,234,567.
func Count(n int64) string {
	digits := strconv.FormatInt(n, 10)
	sign := ""
	if n < 0 {
		sign, digits = "-", digits[1:]
	}
	var groups []string
	for len(digits) > 3 {
		groups = append([]string{digits[len(digits)-3:]}, groups...)
		digits = digits[:len(digits)-3]
	}
	return sign + strings.Join(append([]string{digits}, groups...), ",")
}

// Percent returns a share with three significant digits. It is 0% only if the part is 0, and 100% only if the part is the whole.
func Percent(part, whole int64) string {
	switch {
	case whole <= 0 || part == 0:
		return "0%"
	case part == whole:
		return "100%"
	}
	share := 100 * float64(part) / float64(whole)
	switch {
	case share < 0.001:
		return "<0.001%"
	case share > 99.99:
		return ">99.99%"
	case share >= 10:
		return fmt.Sprintf("%.1f%%", share)
	default:
		return strconv.FormatFloat(math.Round(share*1000)/1000, 'f', -1, 64) + "%"
	}
}
