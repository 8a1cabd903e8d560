package migration

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ratelimit/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/structpb"
	k8syaml "sigs.k8s.io/yaml"

	"github.com/weir-dev/weir/test/fixture"
)

// page returns the blocks of a page in docs/how-to, by the comment with the name of a file in their first line, and the console blocks.
func page(t *testing.T, name string) (files map[string]string, consoles []string, other []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "how-to", name))
	if err != nil {
		t.Fatal(err)
	}
	files = map[string]string{}
	for _, block := range regexp.MustCompile("(?ms)^ *```([a-z]+)\n(.*?)^ *```").FindAllStringSubmatch(string(text), -1) {
		first, rest, _ := strings.Cut(block[2], "\n")
		switch file, named := strings.CutPrefix(first, "# "); {
		case block[1] == "console":
			consoles = append(consoles, block[2])
		case named && strings.HasSuffix(file, ".yaml"):
			files[file] = rest
		default:
			other = append(other, block[2])
		}
	}
	return files, consoles, other
}

// TestDocs_ImportWritesThePoliciesOfThePage runs the import of each page on its files, and expects the output and the policies of the page.
func TestDocs_ImportWritesThePoliciesOfThePage(t *testing.T) {
	binary, err := fixture.BuildWeir(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"migrate-from-envoy-ratelimit.md", "migrate-from-envoy-gateway.md"} {
		t.Run(name, func(t *testing.T) {
			files, consoles, _ := page(t, name)
			t.Chdir(t.TempDir())
			for file, content := range files {
				if !strings.HasPrefix(file, "policies/") {
					if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
						t.Fatal(err)
					}
					// the first line of the block is its name
					if err := os.WriteFile(file, []byte("# "+file+"\n"+content), 0o644); err != nil {
						t.Fatal(err)
					}
				}
			}
			ran := 0
			for _, console := range consoles {
				line, want, _ := strings.Cut(console, "\n")
				command, is := strings.CutPrefix(line, "$ weir ")
				if !is || want == "" || strings.HasPrefix(want, "$") {
					continue
				}
				var stderr bytes.Buffer
				cmd := exec.Command(binary, strings.Fields(command)...)
				cmd.Stderr = &stderr
				if err := cmd.Run(); err != nil && cmd.ProcessState.ExitCode() != 1 {
					t.Fatalf("%s: %v\n%s", command, err, &stderr)
				}
				if diff := cmp.Diff(want, stderr.String()); diff != "" {
					t.Errorf("%s\n%s", command, diff)
				}
				ran++
			}
			if ran == 0 {
				t.Error("the page has no command with its output")
			}
			for file, want := range files {
				if !strings.HasPrefix(file, "policies/") {
					continue
				}
				got, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(want, string(got)); diff != "" {
					t.Errorf("%s\n%s", file, diff)
				}
			}
		})
	}
}

// TestDocs_SecondFilterIsValid validates the filter that asks Weir next to the existing service, with the rules of Envoy.
func TestDocs_SecondFilterIsValid(t *testing.T) {
	_, _, other := page(t, "migrate-from-envoy-ratelimit.md")
	if len(other) != 1 {
		t.Fatalf("%d blocks without the name of a file, want the filter", len(other))
	}
	text, err := k8syaml.YAMLToJSONStrict([]byte(other[0]))
	if err != nil {
		t.Fatal(err)
	}
	var filter hcmv3.HttpFilter
	if err := protojson.Unmarshal(text, &filter); err != nil {
		t.Fatal(err)
	}
	var config ratelimitv3.RateLimit
	if err := filter.GetTypedConfig().UnmarshalTo(&config); err != nil {
		t.Fatal(err)
	}
	if err := config.ValidateAll(); err != nil {
		t.Error(err)
	}
}

// TestDocs_SecurityPolicyKeepsTheOneOfTheGateway: without mergeType, the policy of a route replaces the authentication of its Gateway.
func TestDocs_SecurityPolicyKeepsTheOneOfTheGateway(t *testing.T) {
	_, _, other := page(t, "migrate-from-envoy-gateway.md")
	var security struct {
		Kind string
		Spec struct{ MergeType string }
	}
	if err := k8syaml.Unmarshal([]byte(other[0]), &security); err != nil {
		t.Fatal(err)
	}
	if security.Kind != "SecurityPolicy" || security.Spec.MergeType != "StrategicMerge" {
		t.Errorf("%+v", security)
	}
}

// TestDocs_ShadowReportsTheDenialsOfThePage compares the answers before and after the switch.
func TestDocs_ShadowReportsTheDenialsOfThePage(t *testing.T) {
	files, _, _ := page(t, "migrate-from-envoy-ratelimit.md")
	w := newWeir(t)
	login := [][]entry{{{"generic_key", "login"}, {"remote_address", "203.0.113.7"}}}
	for _, shadow := range []bool{true, false} {
		w.reset()
		w.shadow = shadow
		w.importFrom(t, files["config/shop.yaml"], map[bool]string{true: "shadow:", false: "enforced:"}[shadow])
		for i := range 6 {
			response := w.decide(t, "shop", login)
			if denied := isOver(response.GetOverallCode()); denied != (i == 5 && !shadow) {
				t.Errorf("shadow %t: request %d is denied: %t", shadow, i, denied)
			}
			metadata := response.GetDynamicMetadata().GetFields()
			policy := first(first(metadata["descriptors"])["policies"])
			want := map[bool]string{true: "OVER_LIMIT", false: "OK"}[i == 5]
			if policy["result"].GetStringValue() != want || metadata["source"].GetStringValue() != "memory" || policy["shadow"].GetBoolValue() != shadow {
				t.Errorf("shadow %t: request %d has the metadata %v", shadow, i, metadata)
			}
		}
		if isOver(w.decide(t, "shop", [][]entry{{{"tenant", "internal-a"}}}).GetOverallCode()) {
			t.Error("an unlimited tenant is denied")
		}
	}
}

// first returns the fields of the first item of a list.
func first(list *structpb.Value) map[string]*structpb.Value {
	return list.GetListValue().GetValues()[0].GetStructValue().GetFields()
}
