//go:build gateways

package gateways_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weir-dev/weir/test/fixture"
)

// document returns the YAML blocks of docs/how-to/envoy.md.
func document(t *testing.T) []string {
	t.Helper()
	root, err := fixture.ModuleRoot()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(root, "docs", "how-to", "envoy.md"))
	if err != nil {
		t.Fatal(err)
	}
	var blocks []string
	parts := strings.Split(string(text), "```")
	for i := 1; i < len(parts); i += 2 {
		if info, block, _ := strings.Cut(parts[i], "\n"); info == "yaml" {
			blocks = append(blocks, block)
		}
	}
	return blocks
}

// documentedConfig returns the configuration of docs/how-to/envoy.md with other addresses.
func documentedConfig(t *testing.T, p places) string {
	t.Helper()
	return replace(t, document(t)[0],
		"address: 0.0.0.0, port_value: 10000", socket(p.front),
		"address: weir-limiter-default.weir-system.svc, port_value: 8081", socket(p.weir),
		"address: shop.shop.svc, port_value: 8080", socket(p.upstream))
}

// documentedPolicies returns the policies of docs/how-to/envoy.md for its configuration. The policy with debts is for the route that
// replaces a part of it.
func documentedPolicies(t *testing.T) string {
	t.Helper()
	return strings.Join(slices.DeleteFunc(document(t), func(block string) bool {
		return !strings.HasPrefix(block, "apiVersion:") || strings.Contains(block, "overrun: Debt")
	}), "---\n")
}

// socket returns the fields of a socket_address.
func socket(address string) string {
	host, port, _ := strings.Cut(address, ":")
	return "address: " + host + ", port_value: " + port
}

// replace replaces each old in text. It fails the test if one is missing, because then the text has changed.
func replace(t *testing.T, text string, oldNew ...string) string {
	t.Helper()
	for i := 0; i < len(oldNew); i += 2 {
		if !strings.Contains(text, oldNew[i]) {
			t.Fatalf("%q not found in\n%s", oldNew[i], text)
		}
		text = strings.ReplaceAll(text, oldNew[i], oldNew[i+1])
	}
	return text
}
