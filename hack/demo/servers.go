package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/weir-dev/weir/test/fixture"
)

// demo is what runs, in the order in which it was started.
type demo struct {
	began    time.Time
	dir      string
	weir     string
	kube     *fixture.KubeProcess
	redis    *fixture.RedisProcess // nil when the embedded one serves
	embedded *miniredis.Miniredis
	stack    *fixture.Stack
}

// prepare builds weir and starts the servers that are not ours.
func prepare(ctx context.Context) (d *demo, err error) {
	d = &demo{began: time.Now()}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.stop())
		}
	}()
	if d.dir, err = os.MkdirTemp("", "weir-demo-"); err != nil {
		return d, err
	}
	d.say("First, what a cluster has: an API server and a Redis.")
	d.command("go build ./cmd/weir")
	if d.weir, err = fixture.BuildWeir(ctx, d.dir); err != nil {
		return d, err
	}
	d.command("etcd & kube-apiserver &")
	if d.kube, err = fixture.StartKube(ctx, fixture.KubeOptions{Progress: os.Stdout}); err != nil {
		return d, err
	}
	return d, d.startRedis(ctx)
}

// startRedis runs the redis-server on PATH; a demo installs nothing, so without one the embedded miniredis serves.
func (d *demo) startRedis(ctx context.Context) (err error) {
	if _, lookErr := exec.LookPath("redis-server"); lookErr == nil {
		d.command("redis-server &")
		d.redis, err = fixture.StartRedis(ctx)
		return err
	}
	d.say("There is no redis-server on PATH, so a miniredis inside this program stands in for it.")
	d.embedded, err = miniredis.Run()
	return err
}

func (d *demo) redisURL() string {
	if d.redis != nil {
		return d.redis.URL()
	}
	return "redis://" + d.embedded.Addr()
}

// stop ends everything that prepare and startStack started.
func (d *demo) stop() error {
	var errs []error
	if d.stack != nil {
		errs = append(errs, d.stack.Stop())
	}
	if d.embedded != nil {
		d.embedded.Close()
	}
	if d.redis != nil {
		errs = append(errs, d.redis.Stop())
	}
	if d.kube != nil {
		errs = append(errs, d.kube.Stop())
	}
	if d.dir != "" {
		errs = append(errs, os.RemoveAll(d.dir))
	}
	return errors.Join(errs...)
}

func (d *demo) startStack(ctx context.Context) (err error) {
	d.say("Weir's API comes first, then the operator and two limiter replicas.")
	crds, err := projectPath("config", "crd")
	if err != nil {
		return err
	}
	if err := d.kubectl(ctx, "apply", "--server-side", "-k", crds); err != nil {
		return err
	}
	if err := d.kubectl(ctx, "wait", "--for=condition=Established", "crd/ratelimitpolicies.weir.dev", "--timeout", patience.String()); err != nil {
		return err
	}
	d.stack, err = fixture.StartStack(ctx, fixture.StackOptions{
		Weir: d.weir, Kube: d.kube, RedisURL: d.redisURL(), Limiters: 2,
		Announce: func(command string) {
			if strings.HasPrefix(command, "weir ") { // which goes on running
				command += " &"
			}
			d.command(command)
		},
	})
	return err
}

// projectPath is a path inside the project.
func projectPath(elements ...string) (string, error) {
	root, err := fixture.ModuleRoot()
	if err != nil {
		return "", fmt.Errorf("find the project: %w", err)
	}
	return filepath.Join(append([]string{root}, elements...)...), nil
}
