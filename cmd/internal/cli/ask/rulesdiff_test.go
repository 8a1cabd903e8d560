package ask

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weir-dev/weir/limiter"
)

// diffOf runs rules diff with replicas that answer as given, and returns the exit status.
func diffOf(t *testing.T, enforced, published string, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	limiters := replicas(func(w http.ResponseWriter, r *http.Request) {
		answer := enforced
		if strings.HasSuffix(r.URL.Path, "/rules/published") {
			answer = published
			if revision := r.URL.Query().Get("revision"); revision != "" && !strings.Contains(published, revision) {
				t.Errorf("revision %s was requested", revision)
			}
		}
		_, _ = w.Write([]byte(`{"limiter":"a/b","replicas":[` + answer + `]}`))
	})
	return runAsking(t, limiters, append([]string{"rules", "diff"}, args...)...)
}

const (
	ruleSetOne = `{"pod":"x","status":200,"body":{"revision":"sha256:1","rules":[{"policy":"shop/a","units":1}]}}`
	ruleSetTwo = `{"pod":"z","status":200,"body":{"revision":"sha256:2","rules":[{"policy":"shop/a","units":2}]}}`
	sameAsX    = `{"pod":"y","status":200,"sameAs":"x"}`
	noAnswer   = `{"pod":"w","error":"no answer within 5s"}`
)

func TestRulesDiff_HasTheExitStatusOfDiff(t *testing.T) {
	for name, test := range map[string]struct {
		enforced, published string
		revision            string
		status              int
		stdout, stderr      string
	}{
		"the same":                          {ruleSetOne + "," + sameAsX, ruleSetOne, "", 0, "", ""},
		"a replica lags":                    {ruleSetOne + "," + sameAsX + "," + ruleSetTwo, ruleSetTwo, "", 1, "+++ enforced by x, y  sha256:1\nPOLICY  FIELD  FROM  TO\nshop/a  units  2     1\n", ""},
		"another revision":                  {ruleSetTwo, ruleSetOne, "sha256:1", 1, "--- earlier  sha256:1\n+++ enforced by z  sha256:2\n", ""},
		"one does not answer":               {ruleSetOne + "," + noAnswer, ruleSetOne, "", 2, "", "these do not answer: w"},
		"one lags, and one does not answer": {ruleSetTwo + "," + noAnswer, ruleSetOne, "", 2, "shop/a  units  1     2", "the rules differ, and these replicas do not answer: w"},
		"no such revision": {
			ruleSetOne, `{"pod":"x","status":404,"body":{"detail":"revision \"sha256:3\" is not in Redis"}}`, "sha256:3", 2, "",
			`revision "sha256:3" is not in Redis`,
		},
	} {
		status, stdout, stderr := diffOf(t, test.enforced, test.published, "--revision", test.revision)
		if status != test.status || !strings.Contains(stdout, test.stdout) || test.stdout == "" && stdout != "" || !strings.Contains(stderr, test.stderr) {
			t.Errorf("%s: status %d, stdout %s, stderr %s", name, status, stdout, stderr)
		}
	}
}

// Without the key of the limiter, hashes of API keys in files are others. With it, a difference is a difference.
func TestRulesDiff_ComparesAPIKeysOnlyWithTheHashKey(t *testing.T) {
	const text = "apiVersion: weir.dev/v1alpha1\nkind: RateLimitPolicy\nmetadata: {namespace: shop, name: keys}\n" +
		"spec: {axis: APIKey, limit: 1, window: 1m, tiers: [{name: t, when: {identifiers: [SECRET]}, limit: 2}]}\n"
	dir := t.TempDir()
	file, key := filepath.Join(dir, "p.yaml"), filepath.Join(dir, "key")
	hashKey, err := limiter.NewHashKey([]byte(strings.Repeat("k", 32)))
	if err != nil {
		t.Fatal(err)
	}
	for path, content := range map[string]string{file: text, key: strings.Repeat("k", 32)} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	enforced := func(secret string) string {
		return `{"pod":"x","status":200,"body":{"revision":"r","rules":[{"policy":"shop/keys","domain":"shop","axis":"APIKey",` +
			`"identifier":{"from":"header","name":"x-api-key","secret":true},"fallbacks":[{"from":"clientIP"}],"match":{},"algorithm":"SlidingWindowCounter","units":1,"windowSeconds":60,` +
			`"tiers":[{"name":"t","when":{"identifiers":["` + hashKey.Hash(secret) + `"]},"units":2}]}]}}`
	}
	for _, test := range []struct {
		secret, key string
		status      int
	}{{"SECRET", "", 0}, {"SECRET", key, 0}, {"ANOTHER", "", 0}, {"ANOTHER", key, 1}} {
		status, stdout, stderr := diffOf(t, enforced(test.secret), "", "--policies", file, "--hash-key", test.key)
		if status != test.status {
			t.Errorf("%+v: status %d, %s%s", test, status, stdout, stderr)
		}
	}
}
