package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/weir-dev/weir/test/fixture"
)

const grafanaStart = 2 * time.Minute // the first start creates the database

// grafanaCommand returns the command that starts the Grafana with the home directory home. Since version 9.4 it is a subcommand.
func grafanaCommand(home string) ([]string, error) {
	for _, command := range [][]string{{"grafana", "server"}, {"grafana-server"}} {
		inside := filepath.Join(home, "bin", command[0])
		if path, err := exec.LookPath(inside); err == nil {
			return append([]string{path}, command[1:]...), nil
		}
		if path, err := exec.LookPath(command[0]); err == nil {
			return append([]string{path}, command[1:]...), nil
		}
	}
	return nil, fmt.Errorf("neither %s/bin nor PATH has a program grafana or grafana-server", home)
}

// grafana is a running Grafana with the dashboards of config/grafana.
type grafana struct {
	url string
	cmd *exec.Cmd
	log *os.File
}

// startGrafana starts Grafana with the data source prometheus, and waits until it serves. It keeps its files in dir.
func startGrafana(ctx context.Context, t tools, dir, prometheus string) (*grafana, error) {
	address, err := fixture.FreeAddr(ctx)
	if err != nil {
		return nil, err
	}
	if err := provision(dir, prometheus); err != nil {
		return nil, err
	}
	g := &grafana{url: "http://" + address}
	if g.log, err = os.Create(filepath.Join(dir, "log")); err != nil {
		return nil, err
	}
	g.cmd = exec.CommandContext(context.WithoutCancel(ctx), t.grafana[0], append(t.grafana[1:], "--homepath", t.home)...)
	g.cmd.Env = append(os.Environ(), settings(dir, address)...)
	g.cmd.Stdout, g.cmd.Stderr = g.log, g.log
	if err := g.cmd.Start(); err != nil {
		return nil, errors.Join(err, g.log.Close())
	}
	ctx, cancel := context.WithTimeout(ctx, grafanaStart)
	defer cancel()
	if err := fixture.WaitHTTP(ctx, g.url+"/api/health", http.StatusOK); err != nil {
		log, _ := os.ReadFile(g.log.Name()) // only details
		return nil, errors.Join(fmt.Errorf("%w; log of Grafana:\n%s", err, log), g.stop())
	}
	return g, nil
}

func (g *grafana) stop() error {
	_ = g.cmd.Process.Signal(os.Interrupt) // it may have exited already
	_ = g.cmd.Wait()
	return g.log.Close()
}

// settings are environment variables: every client can view, and Grafana calls no other server.
func settings(dir, address string) []string {
	host, port, _ := net.SplitHostPort(address) // of FreeAddr
	return []string{
		"GF_SERVER_HTTP_ADDR=" + host, "GF_SERVER_HTTP_PORT=" + port,
		"GF_PATHS_DATA=" + dir, "GF_PATHS_LOGS=" + dir, "GF_PATHS_PLUGINS=" + filepath.Join(dir, "plugins"),
		"GF_PATHS_PROVISIONING=" + filepath.Join(dir, "provisioning"),
		"GF_AUTH_ANONYMOUS_ENABLED=true", "GF_USERS_DEFAULT_THEME=light", "GF_DATE_FORMATS_DEFAULT_TIMEZONE=UTC",
		"GF_ANALYTICS_REPORTING_ENABLED=false", "GF_ANALYTICS_CHECK_FOR_UPDATES=false", "GF_ANALYTICS_CHECK_FOR_PLUGIN_UPDATES=false",
		"GF_ANALYTICS_FEEDBACK_LINKS_ENABLED=false", "GF_NEWS_NEWS_FEED_ENABLED=false", "GF_SECURITY_DISABLE_GRAVATAR=true",
		"GF_PLUGINS_PREINSTALL_DISABLED=true", "GF_LOG_LEVEL=warn",
	}
}

const dataSource = `apiVersion: 1
datasources:
- {name: Prometheus, type: prometheus, access: proxy, url: %q, isDefault: true, jsonData: {timeInterval: %v}}
`

const provider = `apiVersion: 1
providers:
- {name: weir, type: file, options: {path: %q}}
`

// provision writes the files from which Grafana loads the data source and the dashboards.
func provision(dir, prometheus string) error {
	root, err := fixture.ModuleRoot()
	if err != nil {
		return err
	}
	for name, text := range map[string]string{
		"datasources": fmt.Sprintf(dataSource, prometheus, scrapeInterval),
		"dashboards":  fmt.Sprintf(provider, filepath.Join(root, "config", "grafana")),
		"plugins":     "", "notifiers": "", "alerting": "", // Grafana warns if they are missing
	} {
		path := filepath.Join(dir, "provisioning", name)
		if err := os.MkdirAll(path, 0o755); err != nil {
			return err
		}
		if text == "" {
			continue
		}
		if err := os.WriteFile(filepath.Join(path, "weir.yaml"), []byte(text), 0o600); err != nil {
			return err
		}
	}
	return nil
}
