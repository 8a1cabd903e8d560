//go:build !linux

package rlsload

import "time"

func sleepUntil(t time.Time) { time.Sleep(time.Until(t)) }
