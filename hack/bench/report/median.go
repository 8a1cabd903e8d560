package report

import (
	"math"
	"slices"
)

// Median returns the middle number, or the mean of the two in the middle; NaN if there are no numbers.
func Median(numbers []float64) float64 {
	if len(numbers) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(numbers))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}

// MedianRatio returns the median of the ratios of numbers with the same index; NaN if there is no such pair.
func MedianRatio(numbers, others []float64) float64 {
	ratios := make([]float64, min(len(numbers), len(others)))
	for i := range ratios {
		ratios[i] = numbers[i] / others[i]
	}
	return Median(ratios)
}
