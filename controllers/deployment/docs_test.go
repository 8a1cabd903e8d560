package deployment

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/test/fixture"
)

// A reader who copies a name from the docs reaches the Service of a Limiter with the name "default".
func TestName_MatchesTheServiceNamesInTheDocs(t *testing.T) {
	root, err := fixture.ModuleRoot()
	if err != nil {
		t.Fatal(err)
	}
	var pages []string
	err = filepath.WalkDir(filepath.Join(root, "docs"), func(path string, _ fs.DirEntry, err error) error {
		if filepath.Ext(path) == ".md" {
			pages = append(pages, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	host, found := regexp.MustCompile(`(weir-limiter[a-z-]*)\.weir-system\b`), 0
	for _, page := range append(pages, filepath.Join(root, "README.md")) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range host.FindAllSubmatch(text, -1) {
			found++
			if got := string(name[1]); got != Name("default") {
				t.Errorf("%s names the Service %s, want %s", page, got, Name("default"))
			}
		}
	}
	if found < 4 {
		t.Errorf("found only %d names of Services", found)
	}
}

// The headless Service of the docs reaches the same ports of the same pods as the Service of the Limiter.
func TestService_SelectsWhatTheHeadlessServiceInTheDocsSelects(t *testing.T) {
	root, err := fixture.ModuleRoot()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(root, "docs", "concepts", "local-mode.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, block, _ := strings.Cut(string(text), "```yaml\napiVersion: v1\nkind: Service\n")
	block, _, found := strings.Cut(block, "```")
	var documented corev1.Service
	if err := yaml.UnmarshalStrict([]byte(block), &documented); err != nil || !found {
		t.Fatal(err, found)
	}
	want := service(&v1alpha1.Limiter{ObjectMeta: metav1.ObjectMeta{Name: "default"}}, Options{}).Spec
	if diff := cmp.Diff(want.Selector, documented.Spec.Selector); diff != "" {
		t.Errorf("selector (-want +documented):\n%s", diff)
	}
	if documented.Spec.ClusterIP != corev1.ClusterIPNone || len(documented.Spec.Ports) != len(want.Ports) {
		t.Fatalf("%+v", documented.Spec)
	}
	for i, port := range documented.Spec.Ports {
		if w := want.Ports[i]; port.Name != w.Name || port.Port != w.Port || port.TargetPort != w.TargetPort {
			t.Errorf("port %+v, want %+v", port, w)
		}
	}
}
