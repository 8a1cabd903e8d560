package manifests

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/weir-dev/weir/test/fixture/kubetest"
	"github.com/weir-dev/weir/test/manifests/tool"
)

// An API server adds defaults to objects. Where it adds one to a field that is applied as a whole, such as fieldRef, a server-side apply
// conflicts with the field manager of the client-side apply.
func TestInstallManifest_CanBeAppliedOnTheServerAfterTheClient(t *testing.T) {
	kube := kubetest.Kube(t)
	install(t) // client-side
	file, err := installManifest(t, image)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		for _, from := range [][]string{{"-f", file}, {"-k", tool.Root(t, "config", "redis")}} {
			if out, err := kube.Kubectl(t.Context(), append([]string{"apply", "--server-side"}, from...)...); err != nil {
				t.Errorf("%v: %v\n%s", from, err, out)
			}
		}
	}
}

// savedObjects is the command of docs/how-to/upgrade-and-uninstall.md, without its last part.
const savedObjects = `grep -vE '^    (creationTimestamp|generation|resourceVersion|uid): '`

func TestSavedObjects_CanBeWrittenAgain(t *testing.T) {
	page, err := os.ReadFile(tool.Root(t, "docs", "how-to", "upgrade-and-uninstall.md"))
	if err != nil {
		t.Fatal(err)
	}
	if strings.Count(string(page), savedObjects) != strings.Count(string(page), "> before.yaml") {
		t.Errorf("the page saves objects with another command than %s", savedObjects)
	}
	kube := kubetest.Kube(t)
	install(t)
	tool.InstallCRDs(t, kube) // waits until they are served
	kubectl := func(args ...string) string {
		t.Helper()
		out, err := kube.Kubectl(t.Context(), args...)
		if err != nil {
			t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return out
	}
	for _, samples := range []string{"config/samples", "config/samples/cluster", "config/samples/limiter"} {
		kubectl("apply", "-k", tool.Root(t, samples))
	}
	const kinds = "ratelimitpolicies,clusterratelimitpolicies,limiters"
	names := kubectl("get", kinds, "-A", "-o", "name")
	filter := exec.CommandContext(t.Context(), "bash", "-c", savedObjects)
	filter.Stdin = strings.NewReader(kubectl("get", kinds, "-A", "-o", "yaml"))
	saved, err := filter.Output()
	if err != nil {
		t.Fatal(err)
	}
	file := tool.File(t, "before.yaml", string(saved))

	kubectl("annotate", kinds, "--all", "-A", "some=change") // so that the resource versions are old
	kubectl("apply", "-f", file)
	kubectl("delete", kinds, "--all", "-A")
	kubectl("apply", "-f", file)
	if got := kubectl("get", kinds, "-A", "-o", "name"); got != names {
		t.Errorf("after the objects were written again: %s, want %s", got, names)
	}
}
