package dashboards

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weir-dev/weir/test/fixture"
)

const patience = 90 * time.Second

// dashboard is the part of a dashboard that the tests read.
type dashboard struct {
	UID           string `json:"uid"`
	Title         string `json:"title"`
	Description   string `json:"description"`
	Editable      *bool  `json:"editable"`
	SchemaVersion int    `json:"schemaVersion"`
	Templating    struct {
		List []variable `json:"list"`
	} `json:"templating"`
	Panels []panel `json:"panels"`
}

type variable struct {
	Name       string      `json:"name"`
	Label      string      `json:"label"`
	Type       string      `json:"type"`
	Query      string      `json:"query"`
	Datasource *datasource `json:"datasource"`
	Refresh    int         `json:"refresh"`
	Multi      bool        `json:"multi"`
	AllValue   string      `json:"allValue"`
}

type datasource struct {
	Type string `json:"type"`
	UID  string `json:"uid"`
}

type panel struct {
	ID          int         `json:"id"`
	Type        string      `json:"type"`
	Title       string      `json:"title"`
	Description string      `json:"description"`
	Datasource  *datasource `json:"datasource"`
	Grid        struct {
		X, Y, W, H int
	} `json:"gridPos"`
	Targets []struct {
		Expr       string      `json:"expr"`
		Datasource *datasource `json:"datasource"`
	} `json:"targets"`
	FieldConfig struct {
		Defaults struct {
			Unit string `json:"unit"`
		} `json:"defaults"`
	} `json:"fieldConfig"`
}

// dashboards reads config/grafana.
func dashboards(t *testing.T) []dashboard {
	t.Helper()
	root, err := fixture.ModuleRoot()
	must(t, err)
	files, err := filepath.Glob(filepath.Join(root, "config", "grafana", "*.json"))
	must(t, err)
	if len(files) != 4 {
		t.Fatalf("%d dashboards, want 4: overview, one policy, Redis, Kubernetes", len(files))
	}
	var all []dashboard
	for _, file := range files {
		text, err := os.ReadFile(file)
		must(t, err)
		var d dashboard
		must(t, json.Unmarshal(text, &d))
		if want := strings.TrimSuffix(filepath.Base(file), ".json"); d.UID != want {
			t.Errorf("%s: the uid is %q, want %q", file, d.UID, want)
		}
		all = append(all, d)
	}
	return all
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
