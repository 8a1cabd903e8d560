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

// alerts reads those of config/prometheus.
func alerts(t *testing.T) ruleFile {
	t.Helper()
	object := tool.Kustomize(t, "config/prometheus")["PrometheusRule "+installed+"/weir"]
	if object == nil {
		t.Fatal("there is no PrometheusRule")
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

func TestAlertsFireWhenTheyShouldAndOnlyThen(t *testing.T) {
	file, dir := alerts(t), t.TempDir()
	write := func(name string, text []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	// What nothing is filled into is not said again in the cases.
	file.each(func(r rule) {
		if strings.Contains(r.Annotations["description"], "{{") {
			t.Errorf("%s: the description has a template, which no case tests", r.Alert)
		}
		delete(r.Annotations, "description")
	})
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

func TestEveryAlertSaysHowBadItIsAndIsTested(t *testing.T) {
	cases, err := os.ReadFile("testdata/alerts_test.yaml")
	if err != nil {
		t.Fatal(err)
	}
	alerts(t).each(func(r rule) {
		if !slices.Contains([]string{"critical", "warning", "info"}, r.Labels["severity"]) || r.Annotations["description"] == "" {
			t.Errorf("%s: labels %v, annotations %v", r.Alert, r.Labels, r.Annotations)
		}
		fires := regexp.MustCompile(`alertname: ` + r.Alert + `\n +exp_alerts:\n`)
		silent := regexp.MustCompile(`alertname: ` + r.Alert + `\n +exp_alerts: \[\]\n`)
		if !fires.Match(cases) || !silent.Match(cases) {
			t.Errorf("%s lacks a case in which it fires, or one in which it is silent", r.Alert)
		}
	})
}

// TestAlertsAskForMetricsThatThereAre looks the names up in the code.
func TestAlertsAskForMetricsThatThereAre(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "grep", "-rhoE", "--include=*.go", "--exclude=*_test.go", `"weir_[a-z_]+"`,
		tool.Root(t, "cmd"), tool.Root(t, "controllers"), tool.Root(t, "limiter")).Output()
	if err != nil {
		t.Fatal(err)
	}
	alerts(t).each(func(r rule) {
		for _, metric := range regexp.MustCompile(`\bweir_[a-z_]+`).FindAllString(r.Expr, -1) {
			name := strings.TrimSuffix(strings.TrimSuffix(metric, "_bucket"), "_count")
			if !strings.Contains(string(out), `"`+name+`"`) {
				t.Errorf("%s: nothing is called %s", r.Alert, name)
			}
		}
	})
}
