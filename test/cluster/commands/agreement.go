package commands

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/weir-dev/weir/go/weir"
	_ "github.com/weir-dev/weir/go/weir/cel" // the policies have expressions
	"github.com/weir-dev/weir/test/agreement"
	"github.com/weir-dev/weir/test/cluster/scenario"
)

// httpPort is that of the HTTP API of a limiter.
const httpPort = 8080

// AgreeWithPrograms compares the answers of a limiter on the cluster with those of a program that decides in process by the same files.
func (s Steps) AgreeWithPrograms(ctx context.Context) (err error) {
	dir, err := os.MkdirTemp("", "agreement-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	file, program := filepath.Join(dir, "agreement.yaml"), filepath.Join(dir, "program")
	if err := os.WriteFile(file, []byte(agreement.Policies(scenario.Agreement)), 0o600); err != nil {
		return err
	}
	if err := s.Create(ctx, scenario.Namespace(scenario.Agreement)); err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, s.Run(ctx, "kubectl", "delete", "-f", file), s.Delete(ctx, scenario.Namespace(scenario.Agreement)))
	}()
	err = scenario.Sequence(
		s.Command("kubectl", "apply", "-f", file),
		s.Command("kubectl", "wait", "-n", scenario.Agreement, "--for=condition=Ready", "ratelimitpolicies", "--all", "--timeout=60s"),
		s.Command("kubectl", "wait", "--for=condition=Ready", "clusterratelimitpolicy/"+agreement.ClusterPolicy, "--timeout=60s"),
	)(ctx)
	if err != nil {
		return err
	}
	// The other policies of the cluster apply to all domains.
	others, err := s.Pipe(ctx, "", "kubectl", "get", "clusterratelimitpolicies", "-o=yaml")
	if err != nil {
		return err
	}
	if err := os.Mkdir(program, 0o700); err != nil {
		return err
	}
	all := agreement.NamespacedPolicies(scenario.Agreement) + "---\n" + others
	if err := os.WriteFile(filepath.Join(program, "policies.yaml"), []byte(all), 0o600); err != nil {
		return err
	}
	policies, err := weir.LoadDir(program)
	if err != nil {
		return err
	}
	inProcess, err := weir.NewMemory(policies, weir.Domain(scenario.Agreement))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, inProcess.Close()) }()
	return s.compare(ctx, inProcess)
}

// compare sends the same requests to a program and to a limiter.
func (s Steps) compare(ctx context.Context, program *weir.Limiter) (err error) {
	forwarded, err := s.Forward(ctx, "deployment/"+scenario.LimiterPods, httpPort)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, forwarded.Stop()) }()
	cluster, err := weir.NewRemote("http://"+forwarded.Address, weir.Domain(scenario.Agreement), weir.Timeout(5*time.Second))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cluster.Close()) }()
	seen := map[int]int{}
	for i, request := range agreement.Requests() {
		want, got := agreement.AnswerOf(ctx, program, request), agreement.AnswerOf(ctx, cluster, request)
		seen[got.Status]++
		s.Expect(agreement.Agree(want, got, true), "request %d %v: the program answers %+v, and the limiter %+v", i, request, want, got)
	}
	for _, status := range agreement.Statuses() {
		s.Expect(seen[status] > 0, "no request has status %d: %v", status, seen)
	}
	s.Logf("a program and a limiter on the cluster give the same answers to %d requests: %v", len(agreement.Requests()), fmt.Sprint(seen))
	return nil
}
