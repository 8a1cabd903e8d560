// Command files is the first part of the demo: a limiter with a policy in a file, without Kubernetes and without Redis. It needs no Kubernetes
// client, so a visitor sees a decision while the rest is not yet compiled.
package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/weir-dev/weir/hack/command"
	"github.com/weir-dev/weir/test/fixture"
)

const (
	limit = 5 // of the policy, per minute
	ready = 30 * time.Second
)

const policy = `apiVersion: weir.dev/v1alpha1
kind: RateLimitPolicy
metadata: {name: per-client, namespace: shop}
spec: {axis: IP, limit: 5, window: 1m, algorithm: SlidingWindowLog}
`

func main() {
	command.Main("\ndemo", run, syscall.SIGHUP)
}

func run(ctx context.Context) (err error) {
	dir, err := os.MkdirTemp("", "weir-demo-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := os.WriteFile(filepath.Join(dir, "per-client.yaml"), []byte(policy), 0o600); err != nil {
		return err
	}
	weir, err := fixture.BuildWeir(ctx, dir)
	if err != nil {
		return err
	}
	fmt.Printf("\n# A limiter with a policy in a file: %d requests a minute for each client\n$ cat policies/per-client.yaml\n%s", limit, policy)
	process, url, err := serve(ctx, weir, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, process.Stop()) }()
	return sendRequests(ctx, url)
}

// serve starts weir serve, and waits until it is ready.
func serve(ctx context.Context, weir, policies string) (process *fixture.WeirProcess, url string, err error) {
	address, err := fixture.FreeAddr(ctx)
	if err != nil {
		return nil, "", err
	}
	ops, err := fixture.FreeAddr(ctx)
	if err != nil {
		return nil, "", err
	}
	fmt.Printf("$ weir serve --policies policies/ --listen %s &\n", address)
	process, err = fixture.StartWeir(weir, "serve", "--policies", policies, "--listen", address, "--ops-listen", ops, "--grpc-listen=", "--drain=0s")
	if err != nil {
		return nil, "", err
	}
	ctx, cancel := context.WithTimeout(ctx, ready)
	defer cancel()
	if err := fixture.WaitHTTP(ctx, "http://"+ops+"/readyz", http.StatusOK); err != nil {
		return nil, "", errors.Join(err, process.Stop())
	}
	return process, "http://" + address, nil
}

// sendRequests sends one request more than the policy allows, and prints the status of each, and the headers of the last one.
func sendRequests(ctx context.Context, url string) error {
	request := fixture.CheckRequest{Domain: "shop", ClientIP: "203.0.113.7"}
	fmt.Printf("$ for i in $(seq %d); do curl -i %s/v1/check -d '{\"domain\":\"shop\",\"clientIP\":\"203.0.113.7\"}'; done\n", limit+1, url)
	for sent := range limit + 1 {
		answer, err := fixture.Check(ctx, url, request)
		if err != nil {
			return err
		}
		if answer.Allowed != (sent < limit) {
			return fmt.Errorf("request %d with a limit of %d: allowed is %v", sent+1, limit, answer.Allowed)
		}
		fmt.Printf("HTTP/1.1 %d %s\n", answer.Status, http.StatusText(answer.Status))
		if !answer.Allowed {
			for _, name := range []string{"RateLimit", "RateLimit-Policy", "Retry-After"} {
				fmt.Printf("%s: %s\n", name, answer.Header.Get(name))
			}
		}
	}
	return nil
}
