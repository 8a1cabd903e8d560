//go:build envoygateway

package envoygateway

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weir-dev/weir/test/fixture"
)

// patience bounds every wait.
const patience = 60 * time.Second

const front = "http://127.0.0.1:8888"

// serverConfig is the configuration of Envoy Gateway, with directories in place of %s.
const serverConfig = `
apiVersion: gateway.envoyproxy.io/v1alpha1
kind: EnvoyGateway
gateway: {controllerName: gateway.envoyproxy.io/gatewayclass-controller}
provider:
  type: Custom
  custom:
    resource: {type: File, file: {paths: [%[1]s/resources]}}
    infrastructure: {type: Host, host: {configHome: %[1]s/config, dataHome: %[1]s/data, stateHome: %[1]s/state, runtimeDir: %[1]s/run}}
logging: {level: {default: warn}}
extensionApis: {enableBackend: true, enableEnvoyPatchPolicy: true}
rateLimit:
  timeout: 2s
  failClosed: true
  backend: {type: Redis, redis: {url: "%[2]s"}}
`

// start runs a process until the test ends.
func start(t *testing.T, log *fixture.LockedBuffer, environ []string, program string, args ...string) {
	t.Helper()
	cmd := exec.Command(program, args...)
	cmd.Env, cmd.Stdout, cmd.Stderr = append(os.Environ(), environ...), log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait() // its log has the reason
		if t.Failed() {
			text := log.String()
			t.Logf("%s:\n%s", program, text[max(0, len(text)-6000):])
		}
	})
}

// rig runs Envoy Gateway with the resources, its Envoy, a backend and Weir as its rate limit service. The script that runs the tests has
// made the names and directories that Envoy Gateway uses.
func rig(t *testing.T, resources string) {
	t.Helper()
	rigWith(t, rigOptions{}, resources)
}

// rigOptions are changes of testdata/gateway.yaml, in YAML.
type rigOptions struct {
	listeners string // of the Gateway
	bootstrap string // added to that of Envoy
}

func rigWith(t *testing.T, options rigOptions, resources string) {
	t.Helper()
	home, redis := t.TempDir(), fixture.Redis(t)
	program := func(name string) string {
		path := os.Getenv(name)
		if path == "" {
			t.Fatalf("%s is not set; run make test-envoy-gateway", name)
		}
		return path
	}
	gateway, weir := program("ENVOY_GATEWAY_BIN"), filepath.Join(program("WEIR_BIN"), "ratelimit")
	write := func(name, content string) {
		file := filepath.Join(home, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	base, err := os.ReadFile("testdata/gateway.yaml")
	if err != nil {
		t.Fatal(err)
	}
	write("server.yaml", fmt.Sprintf(serverConfig, home, strings.Replace(redis.Addr(), "127.0.0.1", "localhost", 1)))
	text := string(base)
	if options.listeners != "" {
		before, after, found := strings.Cut(text, "  listeners: ")
		if !found {
			t.Fatal("testdata/gateway.yaml has no listeners")
		}
		_, after, _ = strings.Cut(after, "\n")
		text = before + "  listeners: " + options.listeners + "\n" + after
	}
	if options.bootstrap != "" {
		const provider = "  provider: "
		if !strings.Contains(text, provider) {
			t.Fatal("testdata/gateway.yaml has no provider")
		}
		text = strings.Replace(text, provider, fmt.Sprintf("  bootstrap: {type: Merge, value: %q}\n", options.bootstrap)+provider, 1)
	}
	write("resources/all.yaml", text+"---\n"+resources)
	bin := filepath.Join(home, "data", "envoy-versions", "1.40.0", "bin")
	if err := os.MkdirAll(bin, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(program("ENVOY_BIN"), filepath.Join(bin, "envoy")); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(gateway, "certgen", "--local", "--config-home", filepath.Join(home, "config")).CombinedOutput(); err != nil {
		t.Fatalf("certgen: %v\n%s", err, out)
	}
	certs := filepath.Join(home, "config", "certs", "envoy-rate-limit")
	for _, name := range []string{"ca.crt", "tls.crt", "tls.key"} {
		content, err := os.ReadFile(filepath.Join(certs, name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join("/certs", name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	serveBackend(t)
	start(t, &fixture.LockedBuffer{}, nil, gateway, "server", "--config-path", filepath.Join(home, "server.yaml"))
	// The environment of Envoy Gateway, in which its xDS server has the name envoy-gateway.
	start(t, &fixture.LockedBuffer{}, strings.Fields(`RUNTIME_ROOT=/data RUNTIME_SUBDIRECTORY=ratelimit RUNTIME_IGNOREDOTFILES=true
		RUNTIME_WATCH_ROOT=false LOG_LEVEL=info USE_STATSD=false CONFIG_TYPE=GRPC_XDS_SOTW CONFIG_GRPC_XDS_SERVER_URL=envoy-gateway:18001
		CONFIG_GRPC_XDS_NODE_ID=envoy-ratelimit GRPC_SERVER_USE_TLS=true GRPC_SERVER_TLS_CERT=/certs/tls.crt GRPC_SERVER_TLS_KEY=/certs/tls.key
		GRPC_SERVER_TLS_CA_CERT=/certs/ca.crt CONFIG_GRPC_XDS_SERVER_USE_TLS=true CONFIG_GRPC_XDS_CLIENT_TLS_CERT=/certs/tls.crt
		CONFIG_GRPC_XDS_CLIENT_TLS_KEY=/certs/tls.key CONFIG_GRPC_XDS_SERVER_TLS_CACERT=/certs/ca.crt FORCE_START_WITHOUT_INITIAL_CONFIG=true
		REDIS_SOCKET_TYPE=tcp USE_PROMETHEUS=true PROMETHEUS_ADDR=:19001 WEIR_REDIS_TIMEOUT=1s REDIS_URL=`+redis.Addr()), weir)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := fixture.WaitHTTP(ctx, front+"/free", http.StatusOK); err != nil {
		t.Fatal(err)
	}
}

// serveBackend serves what is behind the Gateway.
func serveBackend(t *testing.T) {
	t.Helper()
	var config net.ListenConfig
	listener, err := config.Listen(t.Context(), "tcp", "127.0.0.1:3000")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{ReadHeaderTimeout: patience, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprintln(w, "ok")
	})}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
}

// send sends a request such as "POST /path?query name=value", with + for a space, and returns the response.
func send(t *testing.T, request string) *http.Response {
	t.Helper()
	words := strings.Fields(request)
	r, err := http.NewRequestWithContext(t.Context(), words[0], front+words[1], nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, word := range words[2:] {
		name, value, _ := strings.Cut(word, "=")
		r.Header.Add(name, strings.ReplaceAll(value, "+", " "))
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	return response
}
