package proxies_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weir-dev/weir/test/fixture"
)

// places are the addresses and the directory in a proxy's configuration.
type places struct {
	front, weir, upstream string // host:port
	dir                   string // for files
}

// proxy is a program, configured as the document describes.
type proxy struct {
	name string
	// configure writes the configuration of a proxy that fails open or closed while Weir is unavailable, and returns its arguments.
	configure func(t *testing.T, p places, blocks map[string]string, open bool) (args []string)
	// unavailable is the status that clients get from a proxy that fails closed while Weir is unavailable.
	unavailable int
	// closedOnly is true if the proxy cannot be configured to fail open.
	closedOnly bool
	// fieldsToService is true if the proxy gives the rate limit fields to the service and not to the client.
	fieldsToService bool
	// ownDenials is true if the proxy writes the response to denied requests.
	ownDenials bool
	// get returns the path of the program.
	get func(ctx context.Context) (path string, err error)
}

// debian returns the program with that name, from the Debian package with the same name.
func debian(name string) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) { return fixture.Program(ctx, name, name) }
}

func proxies() []proxy {
	return []proxy{
		{name: "nginx", configure: configureNginx, unavailable: 503, ownDenials: true, get: debian("nginx")},
		{name: "caddy", configure: configureCaddy, unavailable: 502, get: debian("caddy")},
		{name: "caddy with HTTP/2", configure: configureCaddyHTTP2, unavailable: 502, get: debian("caddy")},
		{name: "haproxy", configure: configureHAProxy, unavailable: 503, get: debian("haproxy")},
	}
}

func configureNginx(t *testing.T, p places, blocks map[string]string, open bool) []string {
	t.Helper()
	server := blocks["nginx closed"]
	if open {
		server = replace(t, server, "proxy_read_timeout 7s;\n", "proxy_read_timeout 7s;\n"+blocks["nginx open"])
		end := strings.LastIndex(server, "}")
		server = server[:end] + blocks["nginx away"] + "}\n"
	}
	server = replace(t, server, "listen 80;", "listen "+p.front+";", "weir:8080", p.weir, "127.0.0.1:3000", p.upstream)
	var temporary strings.Builder
	for _, kind := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		fmt.Fprintf(&temporary, "%s_temp_path %s;\n", kind, filepath.Join(p.dir, kind))
	}
	file := write(t, p.dir, "nginx.conf", "daemon off;\nmaster_process off;\nerror_log stderr;\npid "+filepath.Join(p.dir, "pid")+
		";\nevents {}\nhttp {\naccess_log off;\n"+temporary.String()+server+"}\n")
	return []string{"-e", "stderr", "-c", file}
}

func configureCaddy(t *testing.T, p places, blocks map[string]string, open bool) []string {
	t.Helper()
	site := blocks["caddyfile closed"]
	if open {
		fallback, err := fixture.FreeAddr(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		site = replace(t, site, "\treverse_proxy weir:8080 {\n", blocks["caddyfile open"]) + "\n" + blocks["caddyfile away"]
		site = replace(t, site, "127.0.0.1:2020", fallback)
	}
	_, port, err := net.SplitHostPort(p.front)
	if err != nil {
		t.Fatal(err)
	}
	site = replace(t, site, ":80 {", ":"+port+" {\n\tbind 127.0.0.1", "weir:8080", p.weir, "127.0.0.1:3000", p.upstream)
	site = replace(t, site, "\tservers {\n", "\tadmin off\n\tservers {\n")
	file := write(t, p.dir, "Caddyfile", site)
	return []string{"run", "--adapter", "caddyfile", "--config", file}
}

// configureCaddyHTTP2 lets Caddy call Weir over HTTP/2. Caddy must call all upstreams in the same way.
func configureCaddyHTTP2(t *testing.T, p places, blocks map[string]string, open bool) []string {
	t.Helper()
	blocks["caddyfile closed"] = replace(t, blocks["caddyfile closed"], "servers {\n", "servers {\n\t\tprotocols h1 h2 h2c\n", "reverse_proxy weir:8080", "reverse_proxy h2c://weir:8080")
	blocks["caddyfile open"] = replace(t, blocks["caddyfile open"], "weir:8080 127.0.0.1:2020", "h2c://weir:8080 h2c://127.0.0.1:2020")
	if open {
		blocks["caddyfile closed"] = replace(t, blocks["caddyfile closed"], "h2c://weir:8080 {", "weir:8080 {") // configureCaddy replaces the line
	}
	return configureCaddy(t, p, blocks, open)
}

func configureHAProxy(t *testing.T, p places, blocks map[string]string, open bool) []string {
	t.Helper()
	lua := write(t, p.dir, "weir.lua", blocks["lua weir.lua"])
	config := blocks["haproxy closed"]
	if open {
		config = replace(t, config, "/v1/auth/shop closed", "/v1/auth/shop open",
			"    http-request return status 503 hdr Retry-After 1 unless { nbsrv(weir) gt 0 }\n", "")
	}
	config = replace(t, config, "bind :80", "bind "+p.front, "weir:8080", p.weir, "127.0.0.1:3000", p.upstream, "/etc/haproxy/weir.lua", lua)
	return []string{"-db", "-f", write(t, p.dir, "haproxy.cfg", config)}
}

func write(t *testing.T, dir, name, text string) (path string) {
	t.Helper()
	path = filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// run runs the program of p until the test ends, and logs its output if the test has failed.
func run(t *testing.T, dir string, p proxy, args ...string) {
	t.Helper()
	path, err := p.get(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), path, args...) // t.Context() ends before the cleanups run
	cmd.Env = append(os.Environ(), "HOME="+dir, "XDG_CONFIG_HOME="+dir, "XDG_DATA_HOME="+dir)
	var log fixture.LockedBuffer
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Wait() // killed
		if t.Failed() {
			t.Logf("%s:\n%s", p.name, log.String())
		}
	})
}
