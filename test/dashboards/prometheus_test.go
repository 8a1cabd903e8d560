package dashboards

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/weir-dev/weir/test/fixture"
	"github.com/weir-dev/weir/test/kubernetes"
)

// prometheus is a running Prometheus server.
type prometheus struct{ url string }

// startPrometheus runs Prometheus until the test ends. It scrapes all processes of w each second.
func startPrometheus(t *testing.T, w *kubernetes.World) prometheus {
	t.Helper()
	p, err := w.StartPrometheus(t.Context(), time.Second)
	must(t, err)
	t.Cleanup(func() {
		must(t, p.Stop())
		if t.Failed() {
			t.Logf("prometheus:\n%s", p.Log())
		}
	})
	return prometheus{url: p.URL}
}

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
