package admin_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/weir-dev/weir/limiter/admin"
	"github.com/weir-dev/weir/limiter/bypass"
)

// listed returns the names of the listed bypasses, with "-" before those that have ended.
func listed(t *testing.T, e *endpoint, query string) (names []string) {
	t.Helper()
	w := call(t, e, http.MethodGet, "/admin/v1/bypasses"+query, "")
	var list admin.BypassList
	if err := json.Unmarshal(w.Body.Bytes(), &list); err != nil || w.Code != http.StatusOK || list.Bypasses == nil {
		t.Fatalf("%d %s (%v)", w.Code, w.Body, err)
	}
	for _, b := range list.Bypasses {
		if b.EndedBy != "" {
			b.Name = "-" + b.Name
		}
		names = append(names, b.Name)
	}
	return names
}

func TestHandler_CreatesAndEndsBypasses(t *testing.T) {
	e := newEndpoint(t)
	w := call(t, e, http.MethodPost, "/admin/v1/bypasses", `{"policy":"shop/a","identifier":"acme","seconds":86400,"reason":"INC-1","name":"one"}`)
	var b bypass.Bypass
	if err := json.Unmarshal(w.Body.Bytes(), &b); err != nil || w.Code != http.StatusOK {
		t.Fatalf("%d %s (%v)", w.Code, w.Body, err)
	}
	want := bypass.Bypass{
		Name: "one", Policy: "shop/a", Identifier: "acme", Reason: "INC-1", CreatedBy: "tester", CreatedAt: epoch(), ExpiresAt: epoch().Add(24 * time.Hour),
	}
	if b != want {
		t.Errorf("%+v, want %+v", b, want)
	}
	if !strings.Contains(e.log.String(), `msg="bypass created" bypass=one policy=shop/a identifier=acme allIdentifiers=false`) ||
		!strings.Contains(e.log.String(), "caller=tester reason=INC-1") {
		t.Errorf("log: %s", &e.log)
	}
	if w := call(t, e, http.MethodPost, "/admin/v1/bypasses", `{"policy":"shop/b","allIdentifiers":true,"seconds":1,"reason":"INC-2"}`); w.Code != http.StatusOK {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if all, a, none := listed(t, e, ""), listed(t, e, "?policy=shop/a"), listed(t, e, "?policy=none"); len(all) != 2 || fmt.Sprint(a) != "[one]" || len(none) != 0 {
		t.Errorf("%q %q %q", all, a, none)
	}
	for body, status := range map[string]int{
		`{"name":"one","policy":"shop/b"}`: 404, `{"name":"two","policy":"shop/a"}`: 404, `{"name":"one","policy":"shop/a","x":1}`: 400, `{"name":"one","policy":"shop/a"}`: 200,
		`{"name":"two"}`: 404, `{"name":"one"}`: 200,
	} {
		if w := call(t, e, http.MethodPost, "/admin/v1/bypasses/end", body); w.Code != status {
			t.Errorf("end %s: %d %s", body, w.Code, w.Body)
		}
	}
	if a := listed(t, e, "?policy=shop/a"); fmt.Sprint(a) != "[-one]" || !strings.Contains(e.log.String(), `msg="bypass ended" bypass=one`) {
		t.Errorf("%q, log %s", a, &e.log)
	}
}

func TestHandler_RejectsBypassesWithoutBound(t *testing.T) {
	e := newEndpoint(t)
	for body, field := range map[string]string{
		`{"identifier":"acme","seconds":60,"reason":"x"}`:                                         "policy",
		`{"policy":"shop/none","identifier":"acme","seconds":60,"reason":"x"}`:                    "policy",
		`{"policy":"shop/a","seconds":60,"reason":"x"}`:                                           "identifier",
		`{"policy":"shop/a","identifier":"acme","allIdentifiers":true,"seconds":60,"reason":"x"}`: "identifier",
		`{"policy":"shop/a","identifier":"acme","reason":"x"}`:                                    "seconds",
		`{"policy":"shop/a","identifier":"acme","seconds":-1,"reason":"x"}`:                       "seconds",
		`{"policy":"shop/a","identifier":"acme","seconds":86401,"reason":"x"}`:                    "seconds",
		`{"policy":"shop/a","identifier":"acme","seconds":9223372036854775807,"reason":"x"}`:      "seconds",
		`{"policy":"shop/a","identifier":"acme","seconds":60,"reason":" "}`:                       "reason",
		`{"policy":"shop/a","identifier":"acme","seconds":60}`:                                    "reason",
		`{"policy":"shop/a","identifier":"acme","seconds":60,"reason":"x","for":"1h"}`:            "body",
	} {
		w := call(t, e, http.MethodPost, "/admin/v1/bypasses", body)
		if w.Code < 400 || w.Code > 404 || !strings.Contains(w.Body.String(), `"field":"`+field+`"`) {
			t.Errorf("%s: %d %s", body, w.Code, w.Body)
		}
	}
	if w := call(t, e, http.MethodPost, "/admin/v1/bypasses", `{"policy":"shop/a","identifier":"acme","seconds":60,"reason":"x","createdAt":"2027-01-01T00:00:00Z"}`); w.Code != http.StatusConflict {
		t.Errorf("created in the future: %d %s", w.Code, w.Body)
	}
	if all := listed(t, e, ""); len(all) > 0 {
		t.Errorf("%q", all)
	}
}

func TestHandler_CreatesBlocks(t *testing.T) {
	e := newEndpoint(t)
	w := call(t, e, http.MethodPost, "/admin/v1/bypasses", `{"policy":"shop/a","identifier":"acme","blocks":true,"seconds":60,"reason":"INC-1"}`)
	var b bypass.Bypass
	if err := json.Unmarshal(w.Body.Bytes(), &b); err != nil || w.Code != http.StatusOK || !b.Blocks || !strings.HasPrefix(b.Name, "block-") {
		t.Fatalf("%d %s (%v)", w.Code, w.Body, err)
	}
	if !strings.Contains(e.log.String(), `msg="block created" bypass=`+b.Name) {
		t.Errorf("log: %s", &e.log)
	}
	if w := call(t, e, http.MethodPost, "/admin/v1/bypasses/end", `{"name":"`+b.Name+`"}`); w.Code != http.StatusOK || !strings.Contains(e.log.String(), `msg="block ended"`) {
		t.Errorf("%d %s, log: %s", w.Code, w.Body, &e.log)
	}
}
