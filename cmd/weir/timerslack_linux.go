package main

import (
	"os"
	"runtime"
	"syscall"
)

// Timer slack is how much later than asked the kernel can end a sleep, in nanoseconds.
const (
	// defaultTimerSlack is that of the kernel.
	defaultTimerSlack = 50_000
	// coarseTimerSlack is that of a limiter. The monitor thread of the Go runtime asks for sleeps of 20 µs while goroutines are in system calls. It
	// then takes the scheduling contexts of goroutines that are in one for longer than that, which costs a switch to another thread. On a busy
	// machine, most of these calls would have ended soon.
	coarseTimerSlack = 500_000

	// prSetTimerSlack and prGetTimerSlack are PR_SET_TIMERSLACK and PR_GET_TIMERSLACK, which package syscall does not have.
	prSetTimerSlack = 29
	prGetTimerSlack = 30
)

// coarsenTimers makes the kernel wake this process less precisely. A thread inherits the timer slack of the thread that starts it, and only a
// thread itself can change its own, so that this process replaces itself with one that has it from the beginning. If that is not possible, or if
// the timer slack is not that of the kernel, coarsenTimers changes nothing.
func coarsenTimers(line []string) {
	if os.Getenv(timerSlackVariable) != "" {
		return
	}
	runtime.LockOSThread() // the thread that becomes the first one of the process
	defer runtime.UnlockOSThread()
	if timerSlack() != defaultTimerSlack || !setTimerSlack(coarseTimerSlack) {
		return
	}
	if os.Setenv(timerSlackVariable, "coarse") == nil {
		_ = syscall.Exec("/proc/self/exe", line, os.Environ()) //nolint:gosec // G204: it is this program; if there is no /proc, it continues
	}
	setTimerSlack(defaultTimerSlack)
}

// timerSlack returns that of this thread.
func timerSlack() uintptr {
	slack, _, _ := syscall.RawSyscall(syscall.SYS_PRCTL, prGetTimerSlack, 0, 0)
	return slack
}

// setTimerSlack reports whether this thread has that timer slack now.
func setTimerSlack(slack uintptr) bool {
	_, _, failed := syscall.RawSyscall(syscall.SYS_PRCTL, prSetTimerSlack, slack, 0)
	return failed == 0 && timerSlack() == slack
}
