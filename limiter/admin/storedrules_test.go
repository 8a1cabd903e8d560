package admin_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/weir-dev/weir/limiter/admin"
	"github.com/weir-dev/weir/limiter/rules"
)

// published is a RuleStore. Its active revision is an error if it begins with "!".
type published struct {
	active string
	sets   map[string][]byte
}

func (p published) Current(context.Context) (string, error) {
	if text, failed := strings.CutPrefix(p.active, "!"); failed {
		return "", errors.New(text)
	}
	return p.active, nil
}

func (p published) Archive(_ context.Context, revision string) ([]byte, bool, error) {
	data, found := p.sets[revision]
	return data, found, nil
}

func TestStoredRules_AreTheActiveOnesOrThoseOfARevision(t *testing.T) {
	old, oldRevision := rules.Encode(rules.Set{Rules: []rules.Rule{rule("shop/a")}})
	current, revision := rules.Encode(rules.Set{Rules: []rules.Rule{rule("shop/a"), rule("shop/b")}})
	sets := map[string][]byte{oldRevision: old, revision: current, "sha256:other": old}
	for name, test := range map[string]struct {
		store    admin.RuleStore
		revision string
		status   int
		want     string
	}{
		"the active one":                 {published{revision, sets}, "", 200, `"revision":"` + revision},
		"an earlier one":                 {published{revision, sets}, oldRevision, 200, `"revision":"` + oldRevision},
		"a revision that has expired":    {published{revision, sets}, "sha256:x", 404, "is kept for an hour"},
		"none is published":              {published{"", sets}, "", 404, "has published no rules"},
		"Redis is unavailable":           {published{"!timeout", sets}, "", 503, "timeout"},
		"data of another revision":       {published{revision, sets}, "sha256:other", 503, "cannot be read"},
		"a limiter that reads files":     {nil, "", 404, "reads its policies from files"},
		"the pointer without a rule set": {published{"sha256:x", sets}, "", 404, "is not in Redis"},
	} {
		h := admin.NewHandler(admin.Options{Published: test.store})
		w := call(t, h, http.MethodGet, "/admin/v1/rules/published?"+url.Values{"revision": {test.revision}}.Encode(), "")
		if w.Code != test.status || !strings.Contains(w.Body.String(), test.want) {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
		}
		var set admin.RuleSet
		if err := json.Unmarshal(w.Body.Bytes(), &set); test.status == 200 && (err != nil || set.Rules[0].Policy != "shop/a" || set.Rules[0].Revision == "") {
			t.Errorf("%s: %s (%v)", name, w.Body, err)
		}
	}
}
