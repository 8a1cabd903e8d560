package manifests

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/weir-dev/weir/test/manifests/tool"
)

// ruleFile is what Prometheus reads alerts from.
type ruleFile struct {
	Groups []struct {
		Name  string `json:"name"`
		Rules []rule `json:"rules"`
	} `json:"groups"`
}

type rule struct {
	Alert       string            `json:"alert"`
	Expr        string            `json:"expr"`
	For         string            `json:"for,omitempty"`
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
}

// alerts reads the rules of config/prometheus.
func alerts(t *testing.T) ruleFile {
	t.Helper()
	object := tool.Kustomize(t, "config/prometheus")["PrometheusRule "+installed+"/weir"]
	if object == nil {
		t.Fatal("config/prometheus has no PrometheusRule weir")
	}
	spec, err := yaml.Marshal(object.Object["spec"])
	if err != nil {
		t.Fatal(err)
	}
	var file ruleFile
	if err := yaml.UnmarshalStrict(spec, &file); err != nil {
		t.Fatal(err)
	}
	return file
}

func (f ruleFile) each(visit func(rule)) {
	for _, group := range f.Groups {
		for _, r := range group.Rules {
			visit(r)
		}
	}
}

func TestAlerts_FireWhenTheyShouldAndOnlyThen(t *testing.T) {
	file, dir := alerts(t), t.TempDir()
	write := func(name string, text []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	// The cases do not repeat the link. TestRunbooks_EveryAlertLinksToItsPage checks it.
	file.each(func(r rule) { delete(r.Annotations, "runbook_url") })
	rules, err := yaml.Marshal(file)
	if err != nil {
		t.Fatal(err)
	}
	cases, err := os.ReadFile("testdata/alerts_test.yaml")
	if err != nil {
		t.Fatal(err)
	}
	tool.Run(t, "promtool", "check", "rules", "--lint=all", "--lint-fatal", write("alerts.yaml", rules))
	tool.Run(t, "promtool", "test", "rules", write("alerts_test.yaml", cases))
}

// The value of these alerts is always 1 or 0, or, of WeirRedisClockWrong, either seconds or a number of counters.
var withoutValue = []string{"WeirRedisClockWrong", "WeirDecidesWithoutRedis", "WeirLimiterDown", "WeirRedisMayEvictKeys", "WeirOperatorAbsent"}

func TestAlerts_DescribeWhatIsAffectedAndByHowMuch(t *testing.T) {
	alerts(t).each(func(r rule) {
		if r.Annotations["summary"] == "" || r.Annotations["description"] == "" {
			t.Errorf("%s: annotations %v; want a summary and a description", r.Alert, r.Annotations)
		}
		// An alert about an absent series has no labels.
		if named := strings.Contains(r.Annotations["description"], "{{ $labels."); !named && r.Alert != "WeirOperatorAbsent" && r.Alert != "WeirPropagationSlow" {
			t.Errorf("%s: the description does not name what is affected by a label", r.Alert)
		}
		if with := strings.Contains(r.Annotations["description"], "{{ $value "); with == slices.Contains(withoutValue, r.Alert) {
			t.Errorf("%s: the description has the value: %v", r.Alert, with)
		}
	})
}

func TestAlerts_HaveASeverityAndTestCases(t *testing.T) {
	cases, err := os.ReadFile("testdata/alerts_test.yaml")
	if err != nil {
		t.Fatal(err)
	}
	alerts(t).each(func(r rule) {
		if !slices.Contains([]string{"critical", "warning", "info"}, r.Labels["severity"]) {
			t.Errorf("%s: labels %v; want a severity", r.Alert, r.Labels)
		}
		fires := regexp.MustCompile(`alertname: ` + r.Alert + `\n +exp_alerts:\n`)
		silent := regexp.MustCompile(`alertname: ` + r.Alert + `\n +exp_alerts: \[\]\n`)
		if !fires.Match(cases) || !silent.Match(cases) {
			t.Errorf("%s: testdata/alerts_test.yaml needs a case in which the alert fires and a case in which it does not", r.Alert)
		}
	})
}

func TestAlerts_UseMetricsOfTheCode(t *testing.T) {
	known := metricNames(t)
	alerts(t).each(func(r rule) {
		for _, metric := range metricName.FindAllString(r.Expr, -1) {
			if !slices.Contains(known, base(metric)) {
				t.Errorf("%s: no code registers a metric %s", r.Alert, metric)
			}
		}
	})
}

var metricName = regexp.MustCompile(`\bweir_[a-z_]+`)

// base is the name under which a metric is registered: without the suffixes that Prometheus adds to a histogram.
func base(metric string) string {
	return strings.TrimSuffix(strings.TrimSuffix(metric, "_bucket"), "_count")
}

// metricNames are the names of metrics in the Go code.
func metricNames(t *testing.T) []string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "grep", "-rhoE", "--include=*.go", "--exclude=*_test.go", `"weir_[a-z_]+"`,
		tool.Root(t, "cmd"), tool.Root(t, "controllers"), tool.Root(t, "limiter")).Output()
	if err != nil {
		t.Fatal(err)
	}
	return metricName.FindAllString(string(out), -1)
}
