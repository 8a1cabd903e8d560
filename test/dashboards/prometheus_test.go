package dashboards

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/weir-dev/weir/test/fixture"
	"github.com/weir-dev/weir/test/kubernetes"
)

// scrapeConfig has the job names that Prometheus Operator gives to the PodMonitors of Weir. Its arguments are the addresses of limiters, the
// address of the operator, the certificate and key of an administrator, and the addresses of API servers.
const scrapeConfig = `
global: {scrape_interval: 1s, scrape_timeout: 1s}
scrape_configs:
- job_name: weir-system/weir-limiter-default
  honor_labels: true
  static_configs: [{targets: [%s]}]
- job_name: weir-system/weir-operator
  honor_labels: true
  static_configs: [{targets: ["%s"]}]
- job_name: apiserver
  scheme: https
  tls_config: {insecure_skip_verify: true, cert_file: %s, key_file: %s}
  static_configs: [{targets: [%s]}]
`

// prometheus is a running Prometheus server.
type prometheus struct{ url string }

// startPrometheus runs Prometheus until the test ends. It scrapes all processes of w.
func startPrometheus(t *testing.T, w *kubernetes.World) prometheus {
	t.Helper()
	path, err := fixture.Program(t.Context(), "prometheus", "prometheus")
	must(t, err)
	address, err := fixture.FreeAddr(t.Context())
	must(t, err)
	dir := t.TempDir()
	config := filepath.Join(dir, "prometheus.yml")
	must(t, os.WriteFile(config, []byte(scrape(t, w, dir)), 0o600))
	log := &fixture.LockedBuffer{}
	cmd := exec.CommandContext(t.Context(), path, "--config.file="+config, "--storage.tsdb.path="+filepath.Join(dir, "data"),
		"--web.listen-address="+address, "--log.level=warn")
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	must(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Wait() // the context of the test has ended and interrupts it
		if t.Failed() {
			t.Logf("prometheus:\n%s", log)
		}
	})
	p := prometheus{url: "http://" + address}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	must(t, fixture.WaitHTTP(ctx, p.url+"/-/ready", http.StatusOK))
	return p
}

func scrape(t *testing.T, w *kubernetes.World, dir string) string {
	t.Helper()
	admin := w.Kube.ConfigOf(0)
	cert, key := filepath.Join(dir, "admin.crt"), filepath.Join(dir, "admin.key")
	must(t, os.WriteFile(cert, admin.CertData, 0o600))
	must(t, os.WriteFile(key, admin.KeyData, 0o600))
	servers := quoted(hostOf(w.Kube.ConfigOf(0)), hostOf(w.Kube.ConfigOf(1)))
	return fmt.Sprintf(scrapeConfig, quoted(w.LimiterMetrics()...), w.OperatorMetrics(), cert, key, servers)
}

func hostOf(config *rest.Config) string {
	return strings.Trim(strings.TrimPrefix(config.Host, "https://"), "/")
}

func quoted(texts ...string) string { return `"` + strings.Join(texts, `", "`) + `"` }

// values runs an instant query and returns the values of its series, as Prometheus writes them: "0.5", "NaN".
func (p prometheus) values(ctx context.Context, query string) ([]string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url+"/api/v1/query?query="+url.QueryEscape(query), http.NoBody)
	if err != nil {
		return nil, err
	}
	client := http.Client{Timeout: 10 * time.Second}
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	var answer struct {
		Status string `json:"status"`
		Error  string `json:"error"`
		Data   struct {
			Result []struct {
				Value [2]any `json:"value"`
			} `json:"result"`
		} `json:"data"`
	}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		return nil, fmt.Errorf("answer of Prometheus to %s: %w", query, err)
	}
	if answer.Status != "success" {
		return nil, fixture.Permanent(fmt.Errorf("query %s: %s", query, answer.Error))
	}
	var values []string
	for _, series := range answer.Data.Result {
		values = append(values, fmt.Sprint(series.Value[1]))
	}
	return values, nil
}
