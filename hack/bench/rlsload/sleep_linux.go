package rlsload

import (
	"syscall"
	"time"
)

// sleepUntil is more precise than time.Sleep, which wakes up to a millisecond late when the process is idle.
func sleepUntil(t time.Time) {
	for left := time.Until(t); left > 0; left = time.Until(t) {
		left := syscall.NsecToTimespec(int64(left))
		_ = syscall.Nanosleep(&left, nil) // a signal interrupts it: the loop continues
	}
}
