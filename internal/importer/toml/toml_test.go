package toml_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"github.com/weir-dev/weir/internal/importer/toml"
)

// describe returns the values below a node, one in a line, with the lines of keys and values.
func describe(n *yaml.Node, path string, out *strings.Builder) {
	switch n.Kind {
	case yaml.MappingNode:
		if len(n.Content) == 0 {
			fmt.Fprintf(out, "%s: {} %d\n", path, n.Line)
		}
		for i := 0; i+1 < len(n.Content); i += 2 {
			describe(n.Content[i+1], fmt.Sprintf("%s.%s:%d", path, n.Content[i].Value, n.Content[i].Line), out)
		}
	case yaml.SequenceNode:
		for i, item := range n.Content {
			describe(item, fmt.Sprintf("%s[%d]", path, i), out)
		}
	default:
		fmt.Fprintf(out, "%s = %s %s %d\n", path, n.Tag, n.Value, n.Line)
	}
}

func TestParse_KeepsLinesAndTypes(t *testing.T) {
	const text = `# Traefik
title = "a"

[http.middlewares."slow.one".rateLimit]
  average = 5
  burst = 1_000
  ratio = 1.5
  redis.tls = true
  since = 2024-01-02

[http.routers]
  [http.routers.api]
    middlewares = [
      "slow",
    ]
    tls = {domains = [{main = "a"}], options = "b"}

[[servers]]
  url = "one"
[servers.more]
  weight = 1
[[servers]]
  url = """
two"""
[empty]
`
	const want = `.title:2 = !!str a 2
.http:4.middlewares:4.slow.one:4.rateLimit:4.average:5 = !!int 5 5
.http:4.middlewares:4.slow.one:4.rateLimit:4.burst:6 = !!int 1000 6
.http:4.middlewares:4.slow.one:4.rateLimit:4.ratio:7 = !!float 1.5 7
.http:4.middlewares:4.slow.one:4.rateLimit:4.redis:8.tls:8 = !!bool true 8
.http:4.middlewares:4.slow.one:4.rateLimit:4.since:9 = !!str 2024-01-02 9
.http:4.routers:11.api:12.middlewares:13[0] = !!str slow 13
.http:4.routers:11.api:12.tls:16.domains:16[0].main:16 = !!str a 16
.http:4.routers:11.api:12.tls:16.options:16 = !!str b 16
.servers:18[0].url:19 = !!str one 19
.servers:18[0].more:20.weight:21 = !!int 1 21
.servers:18[1].url:23 = !!str two 23
.empty:25: {} 25
`
	root, err := toml.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	describe(root, "", &got)
	if diff := cmp.Diff(want, got.String()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestParse_NamesTheLineOfAnError(t *testing.T) {
	for text, want := range map[string]string{
		"a = 1\nb = \n": "line 2: ", "a = 1\na = 2\n": "line 2: ", "[a]\nb = 1\n\n[a]\n": "line 4: ", "a: 1\n": "line 1: ", "a = \"\xff\"\n": "line 1: ",
	} {
		if root, err := toml.Parse([]byte(text)); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: %v, %v, want %s", text, root, err, want)
		}
	}
	if root, err := toml.Parse(nil); err != nil || root.Kind != yaml.MappingNode {
		t.Errorf("of an empty document: %v, %v", root, err)
	}
}
