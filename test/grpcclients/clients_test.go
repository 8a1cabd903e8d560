//go:build gateways

package grpcclients

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	descriptorv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/protobuf/proto"

	"github.com/weir-dev/weir/limiter/engine"
	"github.com/weir-dev/weir/limiter/memstore"
	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/limiter/rules/matching"
	"github.com/weir-dev/weir/limiter/server/envoy"
	"github.com/weir-dev/weir/test/fixture"
)

// serve runs a limiter without policies until the test ends, and returns its address.
func serve(t *testing.T, transport envoy.Transport) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	e := engine.New(memstore.New(time.Now), engine.SourceMemory, engine.NewMetrics(prometheus.NewRegistry()))
	index, err := matching.NewIndex(rules.Set{}, "sha256:1", "weir:")
	if err != nil {
		t.Fatal(err)
	}
	e.Swap(index)
	ctx, stop := context.WithCancel(context.Background())
	stopped := make(chan error, 1)
	server := envoy.NewServer(envoy.Options{Engine: e, Log: slog.New(slog.DiscardHandler), Transport: transport})
	go func() { stopped <- server.Run(ctx, listener) }()
	t.Cleanup(func() {
		stop()
		if err := <-stopped; err != nil {
			t.Error(err)
		}
	})
	return listener.Addr().String()
}

// call is a call with its message in wire format.
type call struct {
	path    string
	message []byte
}

func calls(t *testing.T) []call {
	t.Helper()
	encode := func(m proto.Message) []byte {
		b, err := proto.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	return []call{
		{ratelimitv3.RateLimitService_ShouldRateLimit_FullMethodName, encode(&ratelimitv3.RateLimitRequest{
			Domain: "shop", Descriptors: []*descriptorv3.RateLimitDescriptor{{Entries: []*descriptorv3.RateLimitDescriptor_Entry{{Key: "a", Value: "b"}}}},
		})},
		{authv3.Authorization_Check_FullMethodName, encode(&authv3.CheckRequest{Attributes: &authv3.AttributeContext{ContextExtensions: map[string]string{"domain": "shop"}}})},
		{grpc_health_v1.Health_Check_FullMethodName, nil},
	}
}

// settings are unusual ones of a client. A client leaves out those that it cannot have.
func settings() []map[string]uint32 {
	var all []map[string]uint32
	for name, values := range map[string][]uint32{
		"header_table_size": {0, 1024, 65536}, "initial_window_size": {0, 1, 1 << 20}, "max_frame_size": {16384, 1<<24 - 1}, "max_header_list_size": {4096, 1 << 20},
	} {
		for _, value := range values {
			all = append(all, map[string]uint32{name: value})
		}
	}
	return append(all, map[string]uint32{}, map[string]uint32{"header_table_size": 0, "initial_window_size": 1, "max_header_list_size": 65536})
}

// program is a client that reads its calls and settings from the standard input, or returns the status of each call in another way.
type program func(t *testing.T, address string, calls []call, settings map[string]uint32) (statuses []string)

func TestGRPC_ClientsInOtherLanguagesAreServed(t *testing.T) {
	t.Parallel()
	python, node := scripts(t, "python3", "python3", "testdata/client.py"), scripts(t, "node", "nodejs", "testdata/client.mjs")
	clients := map[string]program{
		"grpcio": python("grpcio"), "hyper-h2": python("h2"), "Node.js": node(), "curl": curl, "nghttp": nghttp, "h2load": h2load,
	}
	for _, transport := range []envoy.Transport{envoy.FastTransport, envoy.StandardTransport} {
		address := serve(t, transport)
		for name, client := range clients {
			for _, s := range settings() {
				t.Run(fmt.Sprint(transport, "/", name, "/", s), func(t *testing.T) {
					t.Parallel()
					wanted := calls(t)
					got := client(t, address, wanted, s)
					if len(got) != len(wanted) {
						t.Fatalf("the client reports %q", got)
					}
					for i, status := range got {
						if status != "0" {
							t.Errorf("%s: grpc-status %s", wanted[i].path, status)
						}
					}
				})
			}
		}
	}
}

// scripts returns a function that returns the program of a script with arguments.
func scripts(t *testing.T, interpreter, debianPackage, script string) func(arguments ...string) program {
	t.Helper()
	path, err := fixture.Program(t.Context(), interpreter, debianPackage)
	if err != nil {
		t.Fatal(err)
	}
	packages := ""
	if strings.HasSuffix(script, ".py") {
		packages = pythonPackages(t, path)
	}
	return func(arguments ...string) program {
		return func(t *testing.T, address string, calls []call, settings map[string]uint32) []string {
			job := struct {
				Calls    [][2]string       `json:"calls"`
				Settings map[string]uint32 `json:"settings"`
			}{Settings: settings}
			for _, c := range calls {
				job.Calls = append(job.Calls, [2]string{c.path, hex.EncodeToString(c.message)})
			}
			if len(arguments) > 0 && arguments[0] == "grpcio" { // which does not have them
				job.Settings = without(settings, func(name string, value uint32) bool { return name == "initial_window_size" && value < 1024 })
			}
			input, err := json.Marshal(job)
			if err != nil {
				t.Fatal(err)
			}
			out := execute(t, input, []string{"PYTHONPATH=" + packages}, path, append(append([]string{script}, arguments...), address)...)
			var statuses []string
			for line := range strings.Lines(out) {
				_, status, _ := strings.Cut(strings.TrimSpace(line), " ")
				statuses = append(statuses, status)
			}
			return statuses
		}
	}
}

func without(settings map[string]uint32, drop func(string, uint32) bool) map[string]uint32 {
	kept := map[string]uint32{}
	for name, value := range settings {
		if !drop(name, value) {
			kept[name] = value
		}
	}
	return kept
}

// pythonPackages installs the packages of testdata/requirements.txt into the cache of the project. pip verifies their hashes.
func pythonPackages(t *testing.T, python string) string {
	t.Helper()
	const requirements = "testdata/requirements.txt"
	text, err := os.ReadFile(requirements)
	cache, errCache := os.UserCacheDir()
	if err := errors.Join(err, errCache); err != nil {
		t.Fatal(err)
	}
	hash := sha256.Sum256(text)
	dir := filepath.Join(cache, "weir", "python-"+hex.EncodeToString(hash[:8]))
	unlock, err := fixture.LockFile(t.Context(), dir+".lock", func() {})
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	if _, err := os.Stat(dir); err == nil {
		return dir
	}
	staging := dir + ".new"
	execute(t, nil, nil, python, "-m", "pip", "install", "--quiet", "--only-binary=:all:", "--require-hashes", "--target", staging, "--upgrade",
		"-r", requirements)
	if err := os.Rename(staging, dir); err != nil {
		t.Fatal(err)
	}
	return dir
}

// execute runs a program, and returns what it has printed.
func execute(t *testing.T, input []byte, env []string, path string, arguments ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, arguments...)
	cmd.Stdin, cmd.Env = bytes.NewReader(input), append(os.Environ(), env...)
	var failures bytes.Buffer
	cmd.Stderr = &failures
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s\n%s", filepath.Base(path), err, out, failures.String())
	}
	return string(out)
}

// body writes a gRPC message to a file.
func body(t *testing.T, c call) string {
	t.Helper()
	n := len(c.message)
	file := filepath.Join(t.TempDir(), "message")
	if err := os.WriteFile(file, append([]byte{0, byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)}, c.message...), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// curl has no settings.
func curl(t *testing.T, address string, calls []call, _ map[string]uint32) (statuses []string) {
	path, err := fixture.Program(t.Context(), "curl", "curl")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range calls {
		out := execute(t, nil, nil, path, "--silent", "--http2-prior-knowledge", "--dump-header", "-", "--output", os.DevNull, "--max-time", "10",
			"--header", "content-type: application/grpc", "--header", "te: trailers", "--data-binary", "@"+body(t, c), "http://"+address+c.path)
		statuses = append(statuses, statusIn(out))
	}
	return statuses
}

// nghttp prints the frames.
func nghttp(t *testing.T, address string, calls []call, settings map[string]uint32) (statuses []string) {
	path, err := fixture.Program(t.Context(), "nghttp", "nghttp2-client")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range calls {
		out := execute(t, nil, nil, path, append(nghttpSettings(settings), "--null-out", "--verbose", "--timeout=10", "--header=:method: POST",
			"--header=content-type: application/grpc", "--header=te: trailers", "--data="+body(t, c), "http://"+address+c.path)...)
		statuses = append(statuses, statusIn(out))
	}
	return statuses
}

// h2load reports how many calls have succeeded, but not their status.
func h2load(t *testing.T, address string, calls []call, settings map[string]uint32) (statuses []string) {
	path, err := fixture.Program(t.Context(), "h2load", "nghttp2-client")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range calls {
		out := execute(t, nil, nil, path, append(nghttpSettings(settings), "--requests=200", "--clients=2", "--max-concurrent-streams=20",
			"--connection-active-timeout=20", "--header=content-type: application/grpc", "--header=te: trailers", "--data="+body(t, c), "http://"+address+c.path)...)
		status := "0"
		if !strings.Contains(out, "200 succeeded, 0 failed, 0 errored") {
			status = out
		}
		statuses = append(statuses, status)
	}
	return statuses
}

// nghttpSettings returns the arguments of nghttp and h2load for settings. They renew windows only from a size that they choose.
func nghttpSettings(settings map[string]uint32) (arguments []string) {
	if size, set := settings["header_table_size"]; set {
		arguments = append(arguments, fmt.Sprint("--header-table-size=", size))
		if size == 0 {
			arguments = append(arguments, "--encoder-header-table-size=0")
		}
	}
	if size, set := settings["initial_window_size"]; set && size > 1 {
		arguments = append(arguments, "--window-bits=20")
	}
	return arguments
}

// statusIn returns the last grpc-status in the text of a response.
func statusIn(text string) string {
	const name = "grpc-status: "
	at := strings.LastIndex(text, name)
	if at < 0 {
		return text
	}
	status, _, _ := strings.Cut(text[at+len(name):], "\n")
	return strings.TrimSpace(status)
}
