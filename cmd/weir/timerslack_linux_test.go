package main

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// slackHelper makes a test program the process whose timer slack a test examines.
const slackHelper = "WEIR_TEST_TIMER_SLACK_HELPER"

// showTimerSlack is what that process does. It prints its process ID at the beginning and at the end, and the timer slack of a new thread.
func showTimerSlack() {
	if os.Getenv(timerSlackVariable) == "" {
		fmt.Fprintln(os.Stdout, "began:", os.Getpid())
	}
	coarsenTimers(os.Args)
	slack := make(chan uintptr)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		slack <- timerSlack()
	}()
	fmt.Fprintln(os.Stdout, "slack:", <-slack)
	fmt.Fprintln(os.Stdout, "ended:", os.Getpid())
}

// runSlackHelper starts the helper from a thread with that timer slack, and returns what it printed.
func runSlackHelper(t *testing.T, slack uintptr, environment ...string) (printed map[string]string) {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	own := timerSlack()
	if !setTimerSlack(slack) {
		t.Fatalf("the timer slack of a thread is %d and cannot become %d", own, slack)
	}
	defer setTimerSlack(own)
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestCoarsenTimers_AppliesToAllThreadsOfTheSameProcess$")
	inherited := slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, timerSlackVariable+"=") })
	cmd.Env = append(append(inherited, slackHelper+"=1"), environment...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("the helper failed: %v\n%s", err, out)
	}
	printed = map[string]string{}
	for line := range strings.Lines(string(out)) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ": "); ok {
			printed[name] = value
		}
	}
	return printed
}

func TestCoarsenTimers_AppliesToAllThreadsOfTheSameProcess(t *testing.T) {
	if os.Getenv(slackHelper) != "" {
		showTimerSlack()
		return
	}
	got := runSlackHelper(t, defaultTimerSlack)
	if got["slack"] != "500000" {
		t.Errorf("the timer slack of a new thread is %s ns, want 500000", got["slack"])
	}
	if got["began"] == "" || got["began"] != got["ended"] {
		t.Errorf("the process ID was %q and is %q", got["began"], got["ended"])
	}
}

func TestCoarsenTimers_KeepsWhatTheUserHasSet(t *testing.T) {
	if got := runSlackHelper(t, 70_000)["slack"]; got != "70000" {
		t.Errorf("a timer slack of 70000 ns became %s", got)
	}
	if got := runSlackHelper(t, defaultTimerSlack, timerSlackVariable+"=unchanged")["slack"]; got != "50000" {
		t.Errorf("with %s, the timer slack is %s ns", timerSlackVariable, got)
	}
}
