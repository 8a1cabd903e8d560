// Package report makes tables of what was measured, a sample a round.
package report
