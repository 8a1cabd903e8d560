// Package readme proves the first screen of README.md: its policy, served by weir serve, causes the response that it shows. It also checks the kubectl
// commands of all pages.
package readme

import (
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/weir-dev/weir/test/fixture"
)

func TestReadme_PolicyCausesTheResponseShown(t *testing.T) {
	readme := read(t)
	policies := t.TempDir()
	if err := os.WriteFile(filepath.Join(policies, "per-client.yaml"), []byte(block(t, readme, "yaml")), 0o600); err != nil {
		t.Fatal(err)
	}
	address := startWeir(t, policies)
	check := regexp.MustCompile(`/v1/check -d '(\{.*\})'`).FindStringSubmatch(readme)
	if check == nil {
		t.Fatal("README.md has no curl command for /v1/check")
	}
	var got string
	for n := 1; n <= 6; n++ {
		if got != "" && !strings.HasPrefix(got, "HTTP/1.1 200 OK\n") {
			t.Fatalf("request %d: got\n%s\nwant 200", n-1, got)
		}
		got = post(t, "http://"+address+"/v1/check", check[1])
	}
	for line := range strings.Lines(block(t, readme, "console")) {
		if !strings.Contains(got, strings.TrimSuffix(line, "\n")) {
			t.Errorf("README.md shows %q; the response is\n%s", line, got)
		}
	}
}

// read returns README.md.
func read(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// block returns the first fenced block of a language.
func block(t *testing.T, page, language string) string {
	t.Helper()
	_, rest, found := strings.Cut(page, "```"+language+"\n")
	text, _, closed := strings.Cut(rest, "```")
	if !found || !closed {
		t.Fatalf("README.md has no block of %s", language)
	}
	return text
}

// startWeir runs weir serve and returns the address of its HTTP endpoints.
func startWeir(t *testing.T, policies string) string {
	t.Helper()
	path, err := fixture.BuildWeir(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	addresses := make([]string, 3)
	for i := range addresses {
		if addresses[i], err = fixture.FreeAddr(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	fixture.Weir(t, path, "serve", "--policies="+policies, "--listen="+addresses[0], "--grpc-listen="+addresses[1], "--ops-listen="+addresses[2])
	if err := fixture.WaitHTTP(t.Context(), "http://"+addresses[2]+"/readyz", http.StatusOK); err != nil {
		t.Fatal(err)
	}
	return addresses[0]
}

// post returns the status line and the headers of the response, one per line, with the times of this minute as in README.md.
func post(t *testing.T, url, body string) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var text strings.Builder
	fmt.Fprintf(&text, "%s %s\n", response.Proto, response.Status)
	for _, name := range []string{"RateLimit", "RateLimit-Policy", "Retry-After"} {
		if values := response.Header.Values(name); len(values) > 0 {
			fmt.Fprintf(&text, "%s: %s\n", name, strings.Join(values, ", "))
		}
	}
	// Seconds have passed since the first request on a slow machine.
	seconds := regexp.MustCompile(`(t=|Retry-After: )(5[0-9]|60)\b`)
	return seconds.ReplaceAllString(text.String(), "${1}60")
}

// Kuadrant has the same plural, singular and short name. In a cluster that has both kinds, kubectl chooses one of them.
var ambiguous = regexp.MustCompile("kubectl.*[ ,/](ratelimitpolicies|ratelimitpolicy|rlp)([ ,/`)'\"]|$)")

func TestPages_NameRateLimitPoliciesWithTheirGroup(t *testing.T) {
	for line, want := range map[string]bool{
		"$ kubectl get ratelimitpolicies":                          true,
		"$ kubectl get rlp,crlp -A":                                true,
		"$ kubectl -n shop wait ratelimitpolicy/a":                 true,
		"`kubectl describe ratelimitpolicy a`":                     true,
		"$ kubectl get limiters,ratelimitpolicies -A":              true,
		"$ kubectl get wrlp,crlp -A":                               false,
		"$ kubectl get ratelimitpolicies.weir.dev":                 false,
		"$ kubectl get ratelimitpolicy.weir.dev/a":                 false,
		"$ kubectl get ratelimitpolicies.kuadrant.io":              false,
		"`kubectl get weir`, see [kinds](ratelimitpolicy.md#edit)": false,
	} {
		if ambiguous.MatchString(line) != want {
			t.Errorf("%q: ambiguous is %v, want %v", line, !want, want)
		}
	}
	lines := 0
	for _, root := range []string{"README.md", "docs", "cmd", "charts", "config", "hack", "controllers", "webhook"} {
		err := filepath.WalkDir(filepath.Join("../..", root), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || strings.HasSuffix(path, "_test.go") || !slices.Contains([]string{".md", ".go", ".sh", ".txt", ".yaml", ".tpl"}, filepath.Ext(path)) {
				return err
			}
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			for n, line := range strings.Split(string(text), "\n") {
				if strings.Contains(line, "kubectl") {
					lines++
				}
				if ambiguous.MatchString(line) {
					t.Errorf("%s:%d: %s: write ratelimitpolicies.weir.dev or wrlp", path, n+1, strings.TrimSpace(line))
				}
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
	if lines < 300 {
		t.Errorf("%d lines with kubectl, want all of the repository", lines)
	}
}
