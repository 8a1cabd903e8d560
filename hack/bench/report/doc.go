// Package report formats tables of measurements with one sample per round.
package report
