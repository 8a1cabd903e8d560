package chart_test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weir-dev/weir/internal/replay/report/chart"
)

func TestCountAndPercent(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567", -1234: "-1,234"} {
		if got := chart.Count(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
	for want, c := range map[string][2]int64{
		"0%": {0, 10}, "100%": {10, 10}, "<0.001%": {1, 1 << 40}, ">99.99%": {99_999_999, 100_000_000}, "12.3%": {123, 1000}, "0.304%": {304, 100_000}, "5%": {5, 100},
	} {
		if got := chart.Percent(c[0], c[1]); got != want {
			t.Errorf("%v: %s, want %s", c, got, want)
		}
	}
	for n, want := range map[float64]string{0: "0", 950: "950", 1500: "1.5k", 2e7: "20M", 0.25: "0.25", 3e9: "3G"} {
		if got := chart.Short(n); got != want {
			t.Errorf("%v: %s, want %s", n, got, want)
		}
	}
}

// An axis contains its values, and has a few ticks in ascending order.
func TestAxes_ContainTheirValues(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		largest := rapid.Float64Range(0, 1e12).Draw(t, "largest")
		from := time.Unix(rapid.Int64Range(0, 4e9).Draw(t, "from"), 0)
		to := from.Add(time.Duration(rapid.Int64Range(1, 4e8).Draw(t, "seconds")) * time.Second)
		for name, c := range map[string]struct {
			axis    chart.Axis
			largest float64
		}{
			"counts": {chart.Counts(largest, ""), largest}, "log": {chart.LogCounts(rapid.Float64Range(0, 1e6).Draw(t, "smallest"), largest, ""), largest},
			"shares": {chart.Shares(largest/1e12, ""), largest / 1e12}, "times": {chart.Times(from, to), float64(to.Unix())},
		} {
			if c.axis.Max < c.largest*(1-1e-9) || c.axis.Max <= c.axis.Min || math.IsInf(c.axis.Max, 0) {
				t.Errorf("%s: from %v to %v, has to contain %v", name, c.axis.Min, c.axis.Max, c.largest)
			}
			if n := len(c.axis.Ticks); n > 16 || n == 0 && name != "times" && name != "log" {
				t.Errorf("%s: %d ticks", name, n)
			}
			for i, tick := range c.axis.Ticks {
				if tick.Label == "" || i > 0 && tick.Value <= c.axis.Ticks[i-1].Value || tick.Value > c.axis.Max*(1+1e-6) {
					t.Errorf("%s: tick %d of %v", name, i, c.axis.Ticks)
				}
			}
		}
	})
}

func TestTimes_LabelsDaysAndHours(t *testing.T) {
	start := time.Date(2026, time.November, 2, 22, 30, 0, 0, time.UTC)
	var labels []string
	for _, tick := range chart.Times(start, start.Add(4*time.Hour)).Ticks {
		labels = append(labels, tick.Label)
	}
	if got := strings.Join(labels, " "); got != "22:30 23:00 23:30 Nov 3 00:30 01:00 01:30 02:00 02:30" {
		t.Error(got)
	}
}

// A picture is well-formed XML within its borders, whatever its texts are.
func TestStandalone_IsAnSVGFile(t *testing.T) {
	plot := chart.Plot{
		Label: `<&"`, X: chart.LogCounts(1, 1000, "limit"), Y: chart.Counts(50, "requests"),
		Series: []chart.Series{{Class: "deny", Name: "a<b", Dots: true, Area: true, Points: []chart.Point{{X: 1, Y: 50}, {X: 5000, Y: -3}}}},
		Bars:   []chart.Bar{{From: 1, To: 2, Value: 3, Title: "<script>"}}, Bands: []chart.Band{{From: 1, To: 10, Title: `"`}},
		Marks: []chart.Mark{{At: 20, Text: "limit 20"}, {At: 25, Text: "suggested 25", Other: true}},
	}
	heat := chart.Heat{Columns: []string{"00", "01"}, Rows: []chart.HeatRow{{Name: strings.Repeat("long/", 20), Cells: []chart.HeatCell{{Level: 5, Title: "x"}, {Level: -1}}}}}
	for _, c := range []*chart.Chart{plot.Draw(), heat.Draw()} {
		var b bytes.Buffer
		if err := chart.Standalone(&b, c); err != nil {
			t.Fatal(err)
		}
		d := xml.NewDecoder(&b)
		for {
			token, err := d.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			if e, ok := token.(xml.StartElement); ok && e.Name.Local == "script" {
				t.Error("a script")
			}
		}
		for _, e := range c.Elements {
			if e.X < 0 || float64(e.X) > float64(c.Width) || e.Y < 0 || float64(e.Y) > float64(c.Height) {
				t.Errorf("%+v is outside of the picture", e)
			}
		}
	}
}
