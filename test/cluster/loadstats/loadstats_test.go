package loadstats_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/weir-dev/weir/test/cluster/loadstats"
)

func at(seconds float64) time.Time {
	return time.Unix(1_700_000_000, 0).UTC().Add(time.Duration(seconds * float64(time.Second)))
}

func second(from float64, answers ...loadstats.Result) loadstats.Second {
	s := loadstats.Second{From: at(from), To: at(from + 1)}
	for _, a := range answers {
		s.Add(a)
	}
	return s
}

func threeSeconds() loadstats.Series {
	admitted := loadstats.Result{At: at(0.5), Took: time.Millisecond, Status: 200, Source: "redis", Policy: "shop/daily", Limit: 10}
	denied := loadstats.Result{At: at(1.5), Took: 200 * time.Millisecond, Status: 429, Source: "cache", Policy: "shop/daily", Limit: 10}
	edited := loadstats.Result{At: at(2.5), Took: 2 * time.Millisecond, Status: 200, Source: "local", Policy: "shop/daily", Limit: 20}
	return loadstats.Series{second(0, admitted, admitted), second(1, denied, loadstats.Result{Failure: "dial: refused"}), second(2, edited)}
}

func TestBetween_SumsTheSecondsThatOverlap(t *testing.T) {
	for name, c := range map[string]struct {
		from, to float64
		answered int
		failed   int
	}{
		"all of it":                  {-1, 5, 4, 1},
		"the middle":                 {1, 2, 1, 1},
		"parts of two":               {0.9, 1.1, 3, 1},
		"after the end":              {3, 5, 0, 0},
		"a moment within one second": {2.4, 2.4, 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			seen := threeSeconds().Between(at(c.from), at(c.to))
			if seen.Answered() != c.answered || seen.Failed() != c.failed {
				t.Errorf("%v, want %d answers and %d failures", seen, c.answered, c.failed)
			}
		})
	}
}

func TestTotal_SumsAllSeconds(t *testing.T) {
	seen := threeSeconds().Total()
	if seen.Denied() != 1 || seen.FromSource("redis") != 2 || seen.FromSource("local") != 1 || seen.Late != 1 || seen.Slowest != 200*time.Millisecond {
		t.Errorf("%v", seen)
	}
	if n := seen.Admitted["shop/daily redis"]; n != 2 {
		t.Errorf("admitted %v, want 2 by Redis: %v", n, seen.Admitted)
	}
	if old := seen.Limits["shop/daily 10"]; !old.First.Equal(at(0.5)) || !old.Last.Equal(at(1.5)) {
		t.Errorf("limit 10 was seen %v, want from 0.5 to 1.5", old)
	}
	if len(seen.Failures) != 1 || !strings.Contains(seen.String(), "1 failures (1 dial: refused)") {
		t.Errorf("%v", seen)
	}
}

func TestRead_ReturnsWhatWriteHasWritten(t *testing.T) {
	var log bytes.Buffer
	if err := threeSeconds().Write(&log); err != nil {
		t.Fatal(err)
	}
	log.WriteString(`{"from":"2026-01-`) // an incomplete line
	j, err := loadstats.Read(&log)
	if err != nil || len(j) != 3 || !j.End().Equal(at(3)) || j.Total().String() != threeSeconds().Total().String() {
		t.Errorf("read %v, %v", j.Total(), err)
	}
}
