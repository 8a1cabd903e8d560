package engine

import (
	"math"
	"testing"
)

func TestMultiplied_IsExactBelowAnyBound(t *testing.T) {
	for _, test := range []struct{ cost, times, want int64 }{
		{3, 7, 21},
		{666_666_666, 3, 1_999_999_998},
		{666_666_667, 3, 2_000_000_000},
		{math.MaxInt64, math.MaxInt64, 2_000_000_000},
		{5, 0, 0},
		{0, 5, 0},
		{-5, 5, 0},
		{5, -5, 0},
	} {
		if got := multiplied(test.cost, test.times); got != test.want {
			t.Errorf("%d · %d: %d, want %d", test.cost, test.times, got, test.want)
		}
	}
}
