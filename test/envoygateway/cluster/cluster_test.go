//go:build envoygatewaycluster

package cluster

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weir-dev/weir/test/cluster/loadstats"
	"github.com/weir-dev/weir/test/fixture"
)

// patience bounds every wait.
const patience = 3 * time.Minute

// command runs a program and returns its output.
func command(t *testing.T, input string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
	var out, problems bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(input), &out, &problems
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s: %v\n%s%s", strings.Join(args, " "), err, &out, &problems)
	}
	return out.String()
}

func kubectl(t *testing.T, args ...string) string {
	t.Helper()
	return command(t, "", append([]string{"kubectl"}, args...)...)
}

// apply creates objects, and deletes them when the test ends.
func apply(t *testing.T, objects string) {
	t.Helper()
	command(t, objects, "kubectl", "apply", "-f", "-")
	t.Cleanup(func() { // t.Context() has ended
		cmd := exec.CommandContext(context.Background(), "kubectl", "delete", "--ignore-not-found", "-f", "-")
		cmd.Stdin = strings.NewReader(objects)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	})
}

func weir(t *testing.T, args ...string) string {
	t.Helper()
	programs := os.Getenv("WEIR_BIN")
	if programs == "" {
		t.Fatal("WEIR_BIN is not set; run make e2e-envoy-gateway")
	}
	return command(t, "", append([]string{filepath.Join(programs, "kubectl-weir")}, args...)...)
}

// await waits until is returns true.
func await(t *testing.T, what string, is func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	err := fixture.Poll(ctx, time.Second, func(context.Context) error {
		if !is() {
			return fmt.Errorf("not yet: %s", what)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// routed waits until the Gateway has accepted a route.
func routed(t *testing.T, route string) {
	t.Helper()
	kubectl(t, "-n", "shop", "wait", `--for=jsonpath={.status.parents[0].conditions[?(@.type=="Accepted")].status}=True`, "--timeout=1m", "httproute/"+route)
}

// forward forwards a port to the Gateway, and returns its URL.
func forward(t *testing.T) string {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	_ = listener.Close()
	cmd := exec.CommandContext(t.Context(), "kubectl", "-n", "envoy-gateway-system", "port-forward", "service/gateway", port+":80")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Wait() }) // t.Context() has ended it
	await(t, "the port is forwarded", func() bool {
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", "127.0.0.1:"+port)
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	})
	return "http://127.0.0.1:" + port
}

// get sends a request with headers NAME=VALUE and returns the response, whose body is closed.
func get(t *testing.T, url string, headers ...string) *http.Response {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, header := range headers {
		name, value, _ := strings.Cut(header, "=")
		request.Header.Set(name, value)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	_, _ = io.Copy(io.Discard, response.Body) // only the header counts
	return response
}

// statuses sends n requests and returns their statuses.
func statuses(t *testing.T, n int, url string, headers ...string) string {
	t.Helper()
	var all []string
	for range n {
		all = append(all, strconv.Itoa(get(t, url, headers...).StatusCode))
	}
	return strings.Join(all, " ")
}

// stat returns a counter of Envoy about the cluster behind the route of the loads.
func stat(t *testing.T, name string) int {
	t.Helper()
	pods := strings.Fields(kubectl(t, "-n", "envoy-gateway-system", "get", "pods", "-l", "gateway.envoyproxy.io/owning-gateway-name=public", "-o=name"))
	if len(pods) != 1 {
		t.Fatalf("pods of Envoy: %v", pods)
	}
	path := "/api/v1/namespaces/envoy-gateway-system/pods/" + strings.TrimPrefix(pods[0], "pod/") + ":19001/proxy/stats/prometheus"
	sum := 0
	for _, line := range regexp.MustCompile(`(?m)^`+name+`\{(.*)\} (\d+)$`).FindAllStringSubmatch(kubectl(t, "get", "--raw", path), -1) {
		if strings.Contains(line[1], `"httproute/shop/load/rule/0"`) {
			n, err := strconv.Atoi(line[2])
			if err != nil {
				t.Fatal(err)
			}
			sum += n
		}
	}
	return sum
}

// startLoad starts a pod that sends n requests for a path of the Gateway, 100 per second, as one tenant.
func startLoad(t *testing.T, name, path string, n int) {
	t.Helper()
	apply(t, fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: %s, namespace: shop}
spec:
  restartPolicy: Never
  automountServiceAccountToken: false
  containers:
  - name: load
    image: docker.io/library/weir-load:e2e
    imagePullPolicy: IfNotPresent
    args: [-url, "http://gateway.envoy-gateway-system", -gateway, -rate, "100", -requests, "%d", -timeout, 30s, -request, "1 %s 1"]
`, name, n, path))
}

// finished waits until a load has sent its requests, and returns the counts of the client. No request may have failed.
func finished(t *testing.T, name string) loadstats.Second {
	t.Helper()
	kubectl(t, "-n", "shop", "wait", "--for=jsonpath={.status.phase}=Succeeded", "--timeout=3m", "pod/"+name)
	series, err := loadstats.Read(strings.NewReader(kubectl(t, "-n", "shop", "logs", name)))
	if err != nil {
		t.Fatal(err)
	}
	total := series.Total()
	if total.Failed() != 0 {
		t.Errorf("load %s: %d unexpected results: %v", name, total.Failed(), total.Failures)
	}
	return total
}

// restart replaces the pods of a Deployment one after the other.
func restart(t *testing.T, namespace, deployment string) {
	t.Helper()
	kubectl(t, "-n", namespace, "rollout", "restart", "deployment/"+deployment)
	kubectl(t, "-n", namespace, "rollout", "status", "deployment/"+deployment, "--timeout=3m")
}
