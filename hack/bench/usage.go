package main

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"
)

// usage is CPU time used so far.
type usage struct{ client, server time.Duration }

func (u usage) since(before usage) usage {
	return usage{client: u.client - before.client, server: u.server - before.server}
}

// used returns the CPU time of this process and of Redis. Redis reports its own to the microsecond.
func used(ctx context.Context, c *clients) (usage, error) {
	var self syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &self); err != nil {
		return usage{}, fmt.Errorf("CPU time of this process: %w", err)
	}
	cpu, err := c.info(ctx, "cpu")
	if err != nil {
		return usage{}, err
	}
	user, errUser := cpu.number("used_cpu_user")
	sys, errSys := cpu.number("used_cpu_sys")
	return usage{
		client: time.Duration(self.Utime.Nano() + self.Stime.Nano()),
		server: time.Duration((user + sys) * float64(time.Second)),
	}, errors.Join(errUser, errSys)
}
