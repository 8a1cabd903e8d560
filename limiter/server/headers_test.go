package server

import (
	"net/http"
	"testing"

	"github.com/dunglas/httpsfv"
	"github.com/google/go-cmp/cmp"
)

func TestCheck_WritesHeadersThatParse(t *testing.T) {
	h := newHandler(t, newEngine(t, atNoon(), tenantRule("a", 3), tenantRule("b", 2)))
	header := post(h, acme).Header()
	for name, want := range map[string][]map[string]any{
		"RateLimit-Policy": {{"name": "shop/b", "q": int64(2), "w": int64(60)}, {"name": "shop/a", "q": int64(3), "w": int64(60)}},
		"RateLimit":        {{"name": "shop/b", "r": int64(1), "t": int64(60)}, {"name": "shop/a", "r": int64(2), "t": int64(60)}},
	} {
		list, err := httpsfv.UnmarshalList(header[name])
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		got := make([]map[string]any, len(list))
		for i, member := range list {
			item, ok := member.(httpsfv.Item)
			if !ok {
				t.Fatalf("%s: member %d is a %T", name, i, member)
			}
			got[i] = map[string]any{"name": item.Value}
			for _, parameter := range item.Params.Names() {
				got[i][parameter], _ = item.Params.Get(parameter)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestCheck_DecidesForAPolicyNameThatIsInvalidInAHeader(t *testing.T) {
	if w := post(newHandler(t, newEngine(t, atNoon(), tenantRule("täglich", 1))), acme); w.Code != http.StatusOK {
		t.Errorf("status %d", w.Code)
	}
}
