package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/client-go/rest"

	"github.com/weir-dev/weir/test/fixture"
)

// scrapeConfig has the job names that Prometheus Operator gives to the PodMonitors of Weir. Its arguments are the scrape interval, the
// addresses of limiters, the address of the operator, the certificate and key of an administrator, and the addresses of API servers.
const scrapeConfig = `
global: {scrape_interval: %[1]v, scrape_timeout: %[1]v}
scrape_configs:
- job_name: weir-system/weir-limiter-default
  honor_labels: true
  static_configs: [{targets: [%[2]s]}]
- job_name: weir-system/weir-operator
  honor_labels: true
  static_configs: [{targets: ["%[3]s"]}]
- job_name: apiserver
  scheme: https
  tls_config: {insecure_skip_verify: true, cert_file: %[4]s, key_file: %[5]s}
  static_configs: [{targets: [%[6]s]}]
`

// Prometheus is a Prometheus server that scrapes the operator, the limiters and the API servers of a World.
type Prometheus struct {
	// URL is the address of the server, as http://host:port.
	URL string

	dir string
	cmd *exec.Cmd
	log *fixture.LockedBuffer
}

// StartPrometheus starts a Prometheus server that scrapes all running processes of w, and waits until it serves. Limiters that start later
// are not scraped.
func (w *World) StartPrometheus(ctx context.Context, interval time.Duration) (*Prometheus, error) {
	path, err := fixture.Program(ctx, "prometheus", "prometheus")
	if err != nil {
		return nil, err
	}
	address, err := fixture.FreeAddr(ctx)
	if err != nil {
		return nil, err
	}
	p := &Prometheus{URL: "http://" + address, log: &fixture.LockedBuffer{}}
	if p.dir, err = os.MkdirTemp("", "weir-prometheus-"); err != nil {
		return nil, err
	}
	config := filepath.Join(p.dir, "prometheus.yml")
	if err := w.writeScrapeConfig(config, interval); err != nil {
		return nil, errors.Join(err, p.Stop())
	}
	p.cmd = exec.CommandContext(context.WithoutCancel(ctx), path, "--config.file="+config, "--storage.tsdb.path="+filepath.Join(p.dir, "data"),
		"--web.listen-address="+address, "--log.level=warn")
	p.cmd.Stdout, p.cmd.Stderr = p.log, p.log
	if err := p.cmd.Start(); err != nil {
		p.cmd = nil
		return nil, errors.Join(err, p.Stop())
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := fixture.WaitHTTP(ctx, p.URL+"/-/ready", http.StatusOK); err != nil {
		return nil, errors.Join(fmt.Errorf("%w; log of Prometheus:\n%s", err, p.log), p.Stop())
	}
	return p, nil
}

// Log returns what the server has logged: warnings and errors.
func (p *Prometheus) Log() string { return p.log.String() }

// Stop stops the server and removes its files.
func (p *Prometheus) Stop() error {
	if p.cmd != nil {
		_ = p.cmd.Process.Signal(os.Interrupt) // it may have exited already
		_ = p.cmd.Wait()
	}
	return os.RemoveAll(p.dir)
}

func (w *World) writeScrapeConfig(path string, interval time.Duration) error {
	admin := w.Kube.ConfigOf(0)
	cert, key := path+".crt", path+".key"
	servers := quoted(hostOf(w.Kube.ConfigOf(0)), hostOf(w.Kube.ConfigOf(1)))
	text := fmt.Appendf(nil, scrapeConfig, interval, quoted(w.LimiterMetrics()...), w.OperatorMetrics(), cert, key, servers)
	return errors.Join(
		os.WriteFile(cert, admin.CertData, 0o600), os.WriteFile(key, admin.KeyData, 0o600), os.WriteFile(path, text, 0o600),
	)
}

func hostOf(config *rest.Config) string {
	return strings.Trim(strings.TrimPrefix(config.Host, "https://"), "/")
}

func quoted(texts ...string) string { return `"` + strings.Join(texts, `", "`) + `"` }
