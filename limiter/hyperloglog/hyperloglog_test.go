package hyperloglog

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
			seed, a, b := maphash.MakeSeed(), &Sketch{}, &Sketch{}
			for i := range n {
				hash := maphash.String(seed, strconv.Itoa(i))
				switch i % 3 {
				case 0:
					a.Add(hash)
					b.Add(hash)
				case 1:
					a.Add(hash)
				default:
					b.Add(hash)
				}
			}
			deviation := math.Abs(Estimate(a, b)-float64(n)) / math.Max(float64(n), 1)
			worst, sum = math.Max(worst, deviation), sum+deviation
		}
		if worst > 0.15 || sum/rounds > 0.06 {
			t.Errorf("%d hashes: off by %.1f %% on average and %.1f %% at most", n, 100*sum/rounds, 100*worst)
		}
	}
}

// The upper ten bits select the register, the others have up to 54 leading zeros.
func TestSketch_KeepsTheMostLeadingZeros(t *testing.T) {
	for hash, want := range map[uint64]uint32{0: 55, 1: 54, 2: 53, 1 << 53: 1, 1<<54 - 1: 1, 1 << 52: 2} {
		s := &Sketch{}
		s.Add(hash)
		if got := s[0].Load(); got != want {
			t.Errorf("hash %x: register %d, want %d", hash, got, want)
		}
		s.Add(1 << 53)
		if got := s[0].Load(); got != want {
			t.Errorf("hash %x: register %d after a smaller one, want %d", hash, got, want)
		}
		s.Add(1<<54 | hash)
		s.Add(1<<56 | hash)
		if got := s[0].Load(); got != want|want<<8 || s[1].Load() != want {
			t.Errorf("hash %x: registers %x, %x after the same in two others", hash, got, s[1].Load())
		}
	}
}

// With 1024 registers that are all 2, the sum of algorithm 6 is 1024/4. With half of them 1 and the others empty it is
// 1024·(1/4 + 1/2 + 1/4 + 1/8 + 1/64 + 1/8192 + …). The estimate is 1024²/(2·ln 2·sum).
func TestEstimate_IsThatOfTheFormula(t *testing.T) {
	for _, test := range []struct {
		a, b uint32
		want float64
	}{
		{0x02010201, 0x01020102, 2954.64},
		{0x00010000, 0x00010001, 647.52},
		{0x00000000, 0x00000000, 0},
		{0x37363736, 0x36363636, 2.047377936e19}, // half of them have the highest rank, so that τ(1/2) = 0.1499… counts
	} {
		a, b := &Sketch{}, &Sketch{}
		for i := range a {
			a[i].Store(test.a)
			b[i].Store(test.b)
		}
		if got := Estimate(a, b); math.Abs(got-test.want) > max(0.01, test.want*1e-9) {
			t.Errorf("%08x, %08x: %f, want %f", test.a, test.b, got, test.want)
		}
	}
}
