package report

import (
	"math"
	"testing"
)

func TestMedian_ReturnsTheMiddle(t *testing.T) {
	tests := map[string]struct {
		numbers []float64
		want    float64
	}{
		"one number":                    {[]float64{3}, 3},
		"the middle of an odd number":   {[]float64{9, 1, 5}, 5},
		"between the two in the middle": {[]float64{8, 1, 4, 2}, 3},
		"an outlier":                    {[]float64{1, 2, 1e9}, 2},
		"no numbers":                    {nil, math.NaN()},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := Median(test.numbers); got != test.want && !(math.IsNaN(got) && math.IsNaN(test.want)) {
				t.Errorf("median of %v: %v, want %v", test.numbers, got, test.want)
			}
		})
	}
}

func TestMedian_DoesNotSortItsArgument(t *testing.T) {
	numbers := []float64{3, 1, 2}
	Median(numbers)
	if numbers[0] != 3 {
		t.Errorf("the argument is now %v", numbers)
	}
}
