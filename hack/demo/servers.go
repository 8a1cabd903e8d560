package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/alicebob/miniredis/v2"

	"github.com/weir-dev/weir/test/fixture"
	"github.com/weir-dev/weir/test/fixture/kubetest"
)

// demo has the servers and processes of the demo, in the order in which they start.
type demo struct {
	steps    int // headings printed
	dir      string
	weir     string
	operator string
	kube     *kubetest.KubeProcess
	redis    *fixture.RedisProcess // nil if embedded is used
	embedded *miniredis.Miniredis
	stack    *kubetest.Stack
}

// prepare starts the API server and Redis. make demo has built the programs of Weir.
func prepare(ctx context.Context) (d *demo, err error) {
	d = &demo{}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.stop())
		}
	}()
	if d.dir, err = os.MkdirTemp("", "weir-demo-"); err != nil {
		return d, err
	}
	d.step("Start a Kubernetes API server and Redis")
	if d.weir, err = fixture.BuildWeir(ctx, d.dir); err != nil {
		return d, err
	}
	if d.operator, err = fixture.BuildOperator(ctx, d.dir); err != nil {
		return d, err
	}
	d.command("etcd & kube-apiserver &")
	if d.kube, err = kubetest.StartKube(ctx, kubetest.KubeOptions{Progress: os.Stdout, AnyKubectl: true}); err != nil {
		return d, err
	}
	return d, d.startRedis(ctx)
}

// startRedis starts the redis-server in PATH, or an embedded miniredis if there is no redis-server: the demo installs nothing.
func (d *demo) startRedis(ctx context.Context) (err error) {
	if _, lookErr := exec.LookPath("redis-server"); lookErr == nil {
		d.command("redis-server &")
		d.redis, err = fixture.StartRedis(ctx)
		return err
	}
	d.comment("redis-server is not in PATH: the demo uses miniredis, a Redis server in Go, in its own process.")
	d.embedded, err = miniredis.Run()
	return err
}

func (d *demo) redisURL() string {
	if d.redis != nil {
		return d.redis.URL()
	}
	return "redis://" + d.embedded.Addr()
}

// stop stops everything that prepare and startWeir started.
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

func (d *demo) startWeir(ctx context.Context) (err error) {
	d.step("Install the CRDs, and start the operator and a Limiter with two replicas")
	d.comment("This API server has no nodes: the demo starts the operator and the replicas as processes, not as pods.")
	crds, err := projectPath("config", "crd")
	if err != nil {
		return err
	}
	if err := d.kubectl(ctx, "apply", "--server-side", "-k", crds); err != nil {
		return err
	}
	d.command("kubectl wait --for=condition=Established crd/limiters.weir.dev crd/ratelimitpolicies.weir.dev crd/clusterratelimitpolicies.weir.dev")
	if err := d.kube.WaitForCRDs(ctx, "limiters.weir.dev", "ratelimitpolicies.weir.dev", "clusterratelimitpolicies.weir.dev"); err != nil {
		return err
	}
	d.stack, err = kubetest.StartStack(ctx, kubetest.StackOptions{
		Weir: d.weir, Operator: d.operator, Kube: d.kube, RedisURL: d.redisURL(), Limiters: 2,
		Announce: func(command string) {
			if strings.HasPrefix(command, "weir") { // runs in the background
				d.command(command + " &")
				return
			}
			d.command(fmt.Sprintf(applyLimiter, strings.TrimPrefix(d.redisURL(), "redis://")))
		},
	})
	return err
}

// applyLimiter is the command for the Limiter that the fixture applies.
const applyLimiter = `kubectl apply --server-side -f - <<EOF
apiVersion: v1
kind: Namespace
metadata: {name: weir-system}
---
apiVersion: weir.dev/v1alpha1
kind: Limiter
metadata: {namespace: weir-system, name: default}
spec: {redis: {addresses: ["%s"]}}
EOF`

// projectPath returns the absolute path of a file in the repository.
func projectPath(elements ...string) (string, error) {
	root, err := fixture.ModuleRoot()
	if err != nil {
		return "", fmt.Errorf("find the root of the repository: %w", err)
	}
	return filepath.Join(append([]string{root}, elements...)...), nil
}
