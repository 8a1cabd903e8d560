package status

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func printed(t *testing.T, format string, r *Report) string {
	t.Helper()
	var out bytes.Buffer
	if err := Print(&out, format, r); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestPrint_FitsOneScreen(t *testing.T) {
	o := healthy()
	o.Limiters[0].Status.Conditions[0] = condition("Ready", "False", "ReplicasMissing")
	o.Limiters[0].Status.ReadyReplicas, o.Limiters[0].Status.EnforcingReplicas = 1, 1
	o.Webhooks = o.Webhooks[:2]
	want := `Operator:  weir-system/weir-operator, 2/2 ready, version v1.2.3
Webhook:   weir-policies, registered, webhooks: 1
Webhook:   weir-throttle, registered, webhooks: 1

LIMITER              READY  REASON           REPLICAS  VERSION  ENFORCING  REVISION      REDIS
weir-system/default  False  ReplicasMissing  1/2       ab       1          0123456789ab  Reachable

Policies: 2, 2 ready, 0 degraded, 1 overridden, 1 enforced
Ready, not enforced: 1 NoRequests: _cluster/floor

Problem 1: Limiter weir-system/default
  ReplicasMissing: message of ReplicasMissing
  do: wait, or look at the pods of the Limiter
  runbook: docs/runbooks/WeirLimiterDown.md
`
	if diff := cmp.Diff(want, printed(t, "table", New(o))); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if got := printed(t, "table", New(healthy())); !strings.HasSuffix(got, "\n\nNo problems.\n") {
		t.Errorf("healthy:\n%s", got)
	}
}

func TestPrint_ListsBypasses(t *testing.T) {
	r := New(healthy())
	expires := time.Now().Add(30*time.Minute + 400*time.Millisecond)
	r.SetBypasses([]Bypass{
		{Limiter: "weir-system/default", Name: "b", Policy: "shop/b", AllIdentifiers: true, Reason: "\x1b[2J", CreatedBy: "jane", ExpiresAt: expires},
		{Limiter: "weir-system/default", Name: "a", Policy: "shop/a", Identifier: "acme", Reason: "INC-1", CreatedBy: "jane", ExpiresAt: expires},
		{Limiter: "weir-system/default", Name: "c", Policy: "shop/a", Blocks: true, Identifier: "bot", Reason: "INC-2", CreatedBy: "joe", ExpiresAt: expires},
	}, []UnknownBypass{{"z/z", "no operator is ready"}, {"y/y", "the operator does not answer"}})
	want := `
BYPASS  LIMITER              POLICY  IDENTIFIER  LEFT   BY    REASON
a       weir-system/default  shop/a  acme        30m0s  jane  INC-1
b       weir-system/default  shop/b  (all)       30m0s  jane  "\x1b[2J"

BLOCK  LIMITER              POLICY  IDENTIFIER  LEFT   BY   REASON
c      weir-system/default  shop/a  bot         30m0s  joe  INC-2

Bypasses: unknown of Limiter y/y (and 1 more): the operator does not answer
`
	if got := printed(t, "table", r); !strings.Contains(got, want) || !r.Healthy {
		t.Errorf("%s\nwant %s", got, want)
	}
	if got := printed(t, "json", New(healthy())); !strings.Contains(got, `"bypasses": []`) {
		t.Errorf("%s", got)
	}
}

func TestPrint_ListsTenPoliciesAndAllInWide(t *testing.T) {
	o := healthy()
	for i := range 12 {
		p := policy(fmt.Sprintf("p%02d", i), condition("Ready", "False", "Invalid"))
		p.Status.Conditions[0].Message = "\x1b[2J" + strings.Repeat("m", 200)
		o.Policies = append(o.Policies, p)
	}
	r := New(o)
	table, wide := printed(t, "table", r), printed(t, "wide", r)
	for text, want := range map[string]string{
		"shop/p09": "both", "shop/p10": "wide", "2 more, which -o wide lists": "table", "Not ready: 12 Invalid": "both",
		strings.Repeat("m", 200): "wide", "…": "table", "\x1b": "", "registry:5000/weir@sha256:ab": "wide", "0123456789abcdef": "wide",
	} {
		got := map[[2]bool]string{{true, true}: "both", {true, false}: "table", {false, true}: "wide"}[[2]bool{strings.Contains(table, text), strings.Contains(wide, text)}]
		if text == "…" { // the list of names also ends with it
			got = map[bool]string{true: "table"}[strings.Contains(table, "m…") && !strings.Contains(wide, "m…")]
		}
		if got != want {
			t.Errorf("%q is in %q, want %q", text, got, want)
		}
	}
	var decoded Report
	if err := json.Unmarshal([]byte(printed(t, "json", r)), &decoded); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(r, &decoded); diff != "" {
		t.Errorf("JSON: -want +got:\n%s", diff)
	}
}

func TestPrint_NamesThreePoliciesThatAreNotEnforcedAndAllInWide(t *testing.T) {
	o := healthy()
	for i := range 4 {
		o.Policies = append(o.Policies, policy(fmt.Sprint("p", i), condition("Ready", "True", "Programmed"), condition("Enforced", "False", "NoRequests")))
	}
	o.Policies = append(o.Policies, policy("q", condition("Ready", "False", "Pending"), condition("Enforced", "Unknown", "Pending")))
	r := New(o)
	table := "\nReady, not enforced: 5 NoRequests: _cluster/floor, shop/p0, shop/p1 and 2 more, which -o wide lists\n\n" +
		"POLICY  READY  REASON   ENFORCED  MESSAGE\nshop/q  False  Pending  Unknown   message of Pending\n"
	if got := printed(t, "table", r); !strings.Contains(got, table) {
		t.Errorf("%s\nwant %s", got, table)
	}
	if got, want := printed(t, "wide", r), "\nReady, not enforced: 5 NoRequests: _cluster/floor, shop/p0, shop/p1, shop/p2, shop/p3\n"; !strings.Contains(got, want) {
		t.Errorf("%s\nwant %s", got, want)
	}
}

func TestPrint_NamesWhatCannotBeRead(t *testing.T) {
	o := &Objects{Unread: []Unread{
		{limiterResource, "list limiters.weir.dev in all namespaces"},
		{deploymentResource, "list deployments.apps in all namespaces"},
		{policyResource, "x"},
		{webhookResource, "y"},
	}}
	want := `
Cannot read limiters.weir.dev: the user lacks the permission to list limiters.weir.dev in all namespaces
Cannot read deployments.apps: the user lacks the permission to list deployments.apps in all namespaces
`
	got := printed(t, "table", New(o))
	if !strings.HasPrefix(got, want) || !strings.Contains(got, "bind the ClusterRole weir-observer with a ClusterRoleBinding") || strings.Contains(got, "No problems") {
		t.Error(got)
	}
	o.Namespace = "shop"
	if got := printed(t, "table", New(o)); !strings.Contains(got, "bind the ClusterRole weir-observer in namespace shop") {
		t.Error(got)
	}
}

func TestPrint_StatesWhatAReportOfANamespaceLeavesOut(t *testing.T) {
	o := healthy()
	o.Namespace = "weir-system"
	if got := printed(t, "table", New(o)); !strings.HasSuffix(got, "\nNo problems in namespace weir-system. "+
		"ClusterRateLimitPolicies, webhooks and other namespaces: kubectl weir status\n") {
		t.Error(got)
	}
	empty := New(&Objects{Scope: Scope{Namespace: "limits", OperatorNamespace: "weir-system"}})
	if got := printed(t, "table", empty); strings.Contains(got, "No problems") || !strings.Contains(got, "Namespace limits has no Limiters and no RateLimitPolicies.") {
		t.Error(got)
	}
}
