//go:build race

package main

func init() { hasRaceDetector = true } //nolint:gochecknoinits // sets a constant
