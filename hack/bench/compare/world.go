package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/weir-dev/weir/hack/bench/rig"
	"github.com/weir-dev/weir/hack/bench/rlsload"
)

// setup is a limiter of one revision with its Redis. Each has its own, because revisions can store counters differently.
type setup struct {
	redis   *rig.Redis
	limiter *rig.Limiter
	client  *rlsload.Client
}

// world has all processes.
type world struct {
	loads  []load
	setups map[int]*[2]setup // by the number of Redis nodes
}

// newWorld starts the processes for the loads. The caller must close the result, even after an error.
func newWorld(ctx context.Context, dir string, sides [2]side, loads []load) (*world, error) {
	w := &world{loads: loads, setups: map[int]*[2]setup{}}
	policies, err := rig.WritePolicies(dir)
	if err != nil {
		return w, err
	}
	for _, l := range loads {
		if w.setups[l.nodes] != nil {
			continue
		}
		both := &[2]setup{}
		w.setups[l.nodes] = both
		for i := range both {
			if err := both[i].start(ctx, sides[i].binary, policies, l.nodes); err != nil {
				return w, fmt.Errorf("%s: %w", sides[i].name, err)
			}
		}
	}
	return w, nil
}

func (s *setup) start(ctx context.Context, binary, policies string, nodes int) (err error) {
	if s.redis, err = rig.StartRedis(ctx, nodes); err != nil {
		return err
	}
	if s.limiter, err = rig.StartLimiter(ctx, binary, policies, s.redis.URL); err != nil {
		return err
	}
	s.client, err = rlsload.Dial(ctx, s.limiter.GRPC, connections)
	return err
}

func (w *world) close() error {
	var errs []error
	for _, both := range w.setups {
		for i := range both {
			errs = append(errs, both[i].stop())
		}
	}
	return errors.Join(errs...)
}

func (s *setup) stop() error {
	var errs []error
	if s.client != nil {
		errs = append(errs, s.client.Close())
	}
	if s.limiter != nil {
		errs = append(errs, s.limiter.Stop())
	}
	if s.redis != nil {
		errs = append(errs, s.redis.Stop())
	}
	return errors.Join(errs...)
}
