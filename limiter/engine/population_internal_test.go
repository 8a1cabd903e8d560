package engine

import (
	"hash/maphash"
	"math"
	"strconv"
	"testing"
)

func TestEstimate_IsWithinFivePercentOfTheDistinctHashes(t *testing.T) {
	for _, n := range []int{0, 1, 10, 100, 1000, 2500, 10_000, 100_000, 2_000_000} {
		worst, sum := 0.0, 0.0
		const rounds = 5
		for range rounds {
			seed, a, b := maphash.MakeSeed(), &sketch{}, &sketch{}
			for i := range n {
				hash := maphash.String(seed, strconv.Itoa(i))
				switch i % 3 {
				case 0:
					a.add(hash)
					b.add(hash)
				case 1:
					a.add(hash)
				default:
					b.add(hash)
				}
			}
			deviation := math.Abs(estimate(a, b)-float64(n)) / math.Max(float64(n), 1)
			worst, sum = math.Max(worst, deviation), sum+deviation
		}
		if worst > 0.15 || sum/rounds > 0.06 {
			t.Errorf("%d hashes: off by %.1f %% on average and %.1f %% at most", n, 100*sum/rounds, 100*worst)
		}
	}
}
