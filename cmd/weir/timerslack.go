package main

import "slices"

// timerSlackVariable is the environment variable that keeps weir from changing the timer slack, if it is set. Weir sets it for the process that it
// becomes.
const timerSlackVariable = "WEIR_TIMER_SLACK"

// decidesRequests reports whether a command line runs a limiter.
func decidesRequests(line []string) bool {
	root := rootCommand()
	cmd, _, err := root.Find(arguments(line))
	return err == nil && cmd.Parent() == root && slices.Contains([]string{"limiter", "serve", "ratelimit"}, cmd.Name())
}
