package logtime

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// FuzzTimes compares with the standard library.
func FuzzTimes(f *testing.F) {
	for _, seed := range []string{
		"14/Mar/2026:08:59:58 +0100", "2026-03-14T08:00:05.123456789Z", "2026-03-14T08:00:05+05:30", "31/Feb/2026:00:00:00 +0000", "2026-13-01T00:00:00Z", "1773475205.5",
	} {
		f.Add(seed)
	}
	c := &Clock{}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := c.Parse(text)
		for _, layout := range []string{"02/Jan/2006:15:04:05 -0700", time.RFC3339Nano} {
			want, wantErr := time.Parse(layout, text)
			if wantErr == nil && want.Format(layout) == text && (err != nil || !got.Equal(want)) {
				t.Errorf("%q: %v, %v, want %v", text, got, err, want)
			}
		}
	})
}

func TestClock_ReadsWhatOthersWrite(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		at := time.Unix(rapid.Int64Range(1, 4e9).Draw(t, "second"), rapid.Int64Range(0, 999_999_999).Draw(t, "nanosecond")).
			In(time.FixedZone("", rapid.IntRange(-14*60, 14*60).Draw(t, "offset")*60))
		c := &Clock{}
		for range 2 { // the second time with the remembered date
			for layout, precision := range map[string]time.Duration{
				"02/Jan/2006:15:04:05 -0700": time.Second, time.RFC3339: time.Second, time.RFC3339Nano: time.Nanosecond, "2006-01-02 15:04:05.000000 -0700": time.Microsecond,
			} {
				got, err := c.Parse(at.Format(layout))
				if want := at.Truncate(precision); err != nil || !got.Equal(want) {
					t.Fatalf("%s: %v, %v, want %v", at.Format(layout), got, err, want)
				}
			}
		}
	})
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	noon := time.Date(2026, time.March, 14, 12, 0, 0, 500_000_000, time.UTC)
	for text, want := range map[string]time.Time{
		"1773489600.5": noon, "1773489600500": noon, "1773489600499.999999": noon.Add(-time.Nanosecond), "1773489600500.0": noon, "1773489600500000": noon, "1773489600500000000": noon, "1.7734896005e9": noon,
		"2026-03-14 12:00:00,500": noon, "14/Mar/2026:12:00:00.500": noon, "2026-03-14T12:00:60Z": noon.Add(58*time.Second + 500*time.Millisecond),
	} {
		if got, err := (&Clock{}).Parse(text); err != nil || !got.Equal(want) {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
	if got, err := (&Clock{Location: berlin}).Parse("14/Mar/2026:13:00:00.500"); err != nil || !got.Equal(noon) {
		t.Errorf("in Berlin: %v, %v", got, err)
	}
	for _, text := range []string{
		"", "-", "yesterday", "31/Feb/2026:00:00:00 +0000", "14/Foo/2026:00:00:00 +0000", "14/Mar/2026:24:00:00 +0000", "14/Mar/2026:12:61:00 +0000",
		"2026-03-14T12:00:00", "2026-03-14T12:00:00+1", "2026-03-14T12:00:00.Z", "2026-03-14X12:00:00Z", "0", "-5", "0.25", "99999999", "NaN", "1e400", "14/Mar/2026:12:00:00 0100",
		"14/Mar/2026:12:00:00 +9900", "14/Mar/2026:12:00:00 +0160", "2026-03-14T12:00:00-24:00", "1773489600500000.5",
	} {
		if got, err := (&Clock{}).Parse(text); err == nil && text != "2026-03-14T12:00:00" { // the last one is in the location of the clock
			t.Errorf("%q is %v, want an error", text, got)
		}
	}
}
