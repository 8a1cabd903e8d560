//go:build gateways

package gateways_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weir-dev/weir/test/fixture"
	"github.com/weir-dev/weir/test/fixture/spelling"
)

// spelledPolicies limit two paths, one with everything below it. Express ignores case.
const spelledPolicies = `
apiVersion: weir.dev/v1alpha1
kind: RateLimitPolicy
metadata: {name: query, namespace: shop}
spec: {axis: IP, limit: 1000000000, window: 1m, match: {http: {ignoreCase: true, paths: [{value: /v1/query}]}}}
---
apiVersion: weir.dev/v1alpha1
kind: RateLimitPolicy
metadata: {name: login, namespace: shop}
spec: {axis: IP, limit: 1000000000, window: 1m, match: {http: {ignoreCase: true, paths: [{type: Exact, value: /v1/login}]}}}
`

// nodeServers are three services: Express 4 and 5 with their defaults, and Node's own reading of URLs. Each names the handler that it has reached.
const nodeServers = `
const http = require('http');
const ports = process.argv.slice(1);
for (const [i, name] of ['express4', 'express5'].entries()) {
  const app = require(name)();
  app.use('/v1/query', (req, res) => res.set('X-Handler', 'query').end());
  app.get('/v1/login', (req, res) => res.set('X-Handler', 'login').end());
  app.use((req, res) => res.end());
  app.use((err, req, res, next) => res.status(400).end());
  app.listen(ports[i], '127.0.0.1');
}
http.createServer((req, res) => {
  let path = '';
  try { path = new URL(req.url, 'http://shop.example').pathname; } catch { }
  if (path === '/v1/login') res.setHeader('X-Handler', 'login');
  if (path === '/v1/query' || path.startsWith('/v1/query/')) res.setHeader('X-Handler', 'query');
  res.end();
}).listen(ports[2], '127.0.0.1');
`

// The versions of Express.
const (
	express4 = "4.21.2"
	express5 = "5.1.0"
)

// startNode runs nodeServers until the test ends, and returns their addresses.
func startNode(t *testing.T) (addresses []string) {
	t.Helper()
	node, err := fixture.Program(t.Context(), "node", "nodejs")
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		addresses = append(addresses, free(t))
	}
	cmd := exec.CommandContext(t.Context(), node, append([]string{"-e", nodeServers}, portsOf(addresses)...)...)
	cmd.Dir = expressDir(t)
	runServer(t, "node", cmd)
	return addresses
}

func portsOf(addresses []string) (ports []string) {
	for _, address := range addresses {
		_, port, _ := net.SplitHostPort(address)
		ports = append(ports, port)
	}
	return ports
}

// expressDir returns a directory in the cache with both versions of Express.
func expressDir(t *testing.T) string {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(cache, "weir", "express-"+express4+"-"+express5)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	unlock, err := fixture.LockFile(t.Context(), dir+".lock", func() {})
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	if _, err := os.Stat(filepath.Join(dir, "complete")); err == nil {
		return dir
	}
	npm, err := fixture.Program(t.Context(), "npm", "npm")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), npm, "install", "--prefix", dir, "--silent", "--no-fund", "--no-audit", "--ignore-scripts",
		"express4@npm:express@"+express4, "express5@npm:express@"+express5)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, out)
	}
	if err := os.WriteFile(filepath.Join(dir, "complete"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// runServer runs a program until the test ends.
func runServer(t *testing.T, name string, cmd *exec.Cmd) {
	t.Helper()
	var log fixture.LockedBuffer
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Wait() // killed: t.Context() has ended
		if t.Failed() {
			t.Logf("%s:\n%s", name, tail(log.String()))
		}
	})
}

// startNginx runs an nginx until the test ends. Its first server is the documented one of forward-auth, and its second one is a service.
func startNginx(t *testing.T, front, weir, upstream, service string) {
	t.Helper()
	nginx, err := fixture.Program(t.Context(), "nginx", "nginx")
	if err != nil {
		t.Fatal(err)
	}
	root, err := fixture.ModuleRoot()
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(root, "docs", "how-to", "forward-auth.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, block, _ := strings.Cut(string(page), "```nginx closed\n")
	block, _, _ = strings.Cut(block, "```")
	block = replace(t, block, "listen 80;", "listen "+front+";", "weir:8080", weir, "127.0.0.1:3000", upstream)
	dir := t.TempDir()
	var temporary strings.Builder
	for _, kind := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		fmt.Fprintf(&temporary, "%s_temp_path %s;\n", kind, filepath.Join(dir, kind))
	}
	file := filepath.Join(dir, "nginx.conf")
	config := "daemon off;\nmaster_process off;\nerror_log stderr crit;\npid " + filepath.Join(dir, "pid") + ";\nevents {}\nhttp {\naccess_log off;\n" +
		temporary.String() + block + `server {
    listen ` + service + `;
    location / { return 200; }
    location = /v1/query { add_header X-Handler query; return 200; }
    location /v1/query/ { add_header X-Handler query; return 200; }
    location = /v1/login { add_header X-Handler login; return 200; }
}
}
`
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	runServer(t, "nginx", exec.CommandContext(t.Context(), nginx, "-e", "stderr", "-c", file))
}

// spelledService is one that gets requests as a gateway forwards them.
type spelledService struct {
	name, address string
	conn          net.Conn
	reader        *bufio.Reader
}

// handler sends a target, byte for byte, and returns the handler that the service has reached: "query", "login" or "".
func (s *spelledService) handler(target string) (string, error) {
	for try := range 2 {
		if s.conn == nil {
			conn, err := net.DialTimeout("tcp", s.address, patience)
			if err != nil {
				return "", err
			}
			s.conn, s.reader = conn, bufio.NewReader(conn)
		}
		response, err := exchange(s.conn, s.reader, target)
		if err == nil {
			if response.Close {
				s.close()
			}
			return response.Header.Get("X-Handler"), nil
		}
		s.close()
		if try > 0 {
			return "", err
		}
	}
	return "", errors.New("not reached")
}

func (s *spelledService) close() {
	if s.conn != nil {
		_ = s.conn.Close()
		s.conn = nil
	}
}

// exchange sends a GET request on a connection and reads the response.
func exchange(conn net.Conn, reader *bufio.Reader, target string) (*http.Response, error) {
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return nil, err
	}
	if _, err := io.WriteString(conn, "GET "+target+" HTTP/1.1\r\nHost: shop.example\r\n\r\n"); err != nil {
		return nil, err
	}
	response, err := http.ReadResponse(reader, nil)
	if err != nil {
		return nil, err
	}
	_, err = io.Copy(io.Discard, response.Body)
	return response, errors.Join(err, response.Body.Close())
}

// fanOut is the service behind the gateways. It passes each request to all services, and returns the handlers that they have reached in the
// field X-Reached: "go=query express4=login".
func fanOut(t *testing.T, services func() []*spelledService) (address string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go serveFanOut(conn, services())
		}
	}()
	return listener.Addr().String()
}

func serveFanOut(conn net.Conn, services []*spelledService) {
	defer conn.Close()
	defer func() {
		for _, s := range services {
			s.close()
		}
	}()
	reader := bufio.NewReader(conn)
	for {
		line, err := reader.ReadString('\n')
		if err != nil {
			return
		}
		for header := line; strings.TrimSpace(header) != ""; {
			if header, err = reader.ReadString('\n'); err != nil {
				return
			}
		}
		target := strings.TrimPrefix(line, "GET ")
		target = target[:max(0, strings.LastIndex(target, " HTTP/"))]
		var reached []string
		for _, s := range services {
			handler, err := s.handler(target)
			if err != nil {
				reached = append(reached, s.name+"="+strings.ReplaceAll(err.Error(), " ", "_"))
			} else if handler != "" {
				reached = append(reached, s.name+"="+handler)
			}
		}
		if _, err := io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nX-Reached: "+strings.Join(reached, " ")+"\r\n\r\n"); err != nil {
			return
		}
	}
}

// goService is a ServeMux of Go.
func goService(t *testing.T) (address string) {
	t.Helper()
	mux := http.NewServeMux()
	for pattern, name := range map[string]string{"/v1/query": "query", "/v1/query/": "query", "/v1/login": "login"} {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("X-Handler", name) })
	}
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

// A client sends targets in all spellings through nginx and through Envoy with each of its settings for paths. Behind them are services of Go, Express,
// Node and nginx. Whenever one of them reaches the handler of a limited path, the response shows that Weir has counted the request under the policy.
func TestSpelling_NoSpellingReachesAServiceWithoutThePolicy(t *testing.T) {
	t.Parallel()
	w := newService(t, spelledPolicies)
	limiter := w.startLimiter(t)
	node, ownNginx, nginxFront := startNode(t), free(t), free(t)
	addresses := map[string]string{"go": goService(t), "express4": node[0], "express5": node[1], "url": node[2], "nginx": ownNginx}
	upstream := fanOut(t, func() (all []*spelledService) {
		for name, address := range addresses {
			all = append(all, &spelledService{name: name, address: address})
		}
		return all
	})
	startNginx(t, nginxFront, limiter.http, upstream, ownNginx)
	fronts := map[string]string{"nginx": nginxFront}
	settings := map[string]string{
		"Envoy":                        "",
		"Envoy, KEEP_UNCHANGED":        "normalize_path: true\n          merge_slashes: true\n          path_with_escaped_slashes_action: KEEP_UNCHANGED",
		"Envoy, UNESCAPE_AND_FORWARD":  "normalize_path: true\n          merge_slashes: true\n          path_with_escaped_slashes_action: UNESCAPE_AND_FORWARD",
		"Envoy, REJECT_REQUEST":        "normalize_path: true\n          merge_slashes: true\n          path_with_escaped_slashes_action: REJECT_REQUEST",
		"Envoy, UNESCAPE_AND_REDIRECT": "normalize_path: true\n          merge_slashes: true\n          path_with_escaped_slashes_action: UNESCAPE_AND_REDIRECT",
	}
	for name, setting := range settings {
		fronts[name] = free(t)
		config := benchConfig(fronts[name], authFilter, limiter.grpc, upstream)
		startEnvoy(t, replace(t, config, "use_remote_address: true", "use_remote_address: true\n          "+setting))
	}
	for name, address := range addresses {
		awaitListener(t, name, address)
	}
	targets := append(spelling.Listed("/v1/query", "/v1/login"), spelling.Targets(uint64(time.Now().UnixNano()), 1000, "/v1/query", "/v1/query/x", "/v1/login")...)
	for name, front := range fronts {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			awaitListener(t, name, front)
			reached := map[string]int{}
			client := &spelledService{address: front}
			defer client.close()
			for _, target := range targets {
				response := client.send(t, target)
				policies := response.Header.Get("Ratelimit-Policy")
				for one := range strings.FieldsSeq(response.Header.Get("X-Reached")) {
					server, handler, _ := strings.Cut(one, "=")
					if reached[server]++; !strings.Contains(policies, "shop/"+handler) {
						t.Errorf("%q reached %s, and Weir counted it under %q", target, one, policies)
					}
				}
			}
			t.Logf("%d targets reached handlers of limited paths: %v", len(targets), reached)
			for server := range addresses {
				if reached[server] < 50 {
					t.Errorf("%d targets reached the handlers of %s: that proves too little", reached[server], server)
				}
			}
		})
	}
}

// send sends a target to a gateway. A gateway can close the connection after an error.
func (s *spelledService) send(t *testing.T, target string) *http.Response {
	t.Helper()
	for try := range 2 {
		if s.conn == nil {
			conn, err := net.DialTimeout("tcp", s.address, patience)
			if err != nil {
				t.Fatal(err)
			}
			s.conn, s.reader = conn, bufio.NewReader(conn)
		}
		response, err := exchange(s.conn, s.reader, target)
		if err != nil || response.Close {
			s.close()
		}
		if err == nil {
			return response
		}
		if try > 0 {
			t.Fatalf("%q: %v", target, err)
		}
	}
	return nil
}

func awaitListener(t *testing.T, name, address string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	fixture.Await(t, name+" listens", func() bool {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	})
}
