package permissions

import (
	"fmt"
	"strings"
)

// expectBypass lets the tenant acme, which both replicas deny, pass the policy for some time.
func (w *administered) expectBypass(stranger, observer, responder string) {
	w.Helper()
	policy := w.ns + "/daily"
	create := []string{"bypass", policy, "--identifier", "acme", "--for", "1h", "--reason", "INC-1234: import runs", "-o", "name"}
	w.expect(observer, false, []string{`user "olga@example.com" cannot create limiters/bypasses`, "bind the ClusterRole weir-responder"}, create...)
	w.expect(stranger, false, []string{`user "stranger" cannot get limiters/bypasses`}, "bypass", "list")
	w.expectRequest(0, 429)
	name := strings.TrimSpace(w.expect(responder, true, nil, create...))
	for i := range w.replicas { // when the command has returned
		w.expectRequest(i, 200)
		w.expectRequest(i, 200)
	}
	user := "system:serviceaccount:" + w.ns + ":oncall"
	w.expect(observer, true, []string{name, policy, "acme", " left", "2/2", user, "INC-1234: import runs"}, "bypass", "list")
	w.expect(observer, true, []string{"Bypassed", "bypass " + name + " of", user}, "explain", "--domain", w.ns, "--header", "x-tenant-id: acme")
	stdout, stderr, _ := w.runWithout("--limiter", observer, "status", "--namespace", w.ns)
	if !strings.Contains(stdout, name) || !strings.Contains(stdout, "INC-1234: import runs") {
		w.Errorf("status: %s%s", stdout, stderr)
	}
	w.expect(observer, false, []string{`cannot delete limiters/bypasses`}, "bypass", "end", name)
	w.expectRequest(1, 200)
	w.expect(responder, true, []string{"ended by " + user, "2/2"}, "bypass", "end", name)
	for i := range w.replicas {
		w.expectRequest(i, 429)
	}
	notes := w.kubectl("get", "events.events.k8s.io", "-n", w.ns, "--field-selector=reason=Bypassed", "--sort-by=.eventTime", "-o",
		`jsonpath={range .items[*]}{.regarding.kind} {.regarding.name} {.note}{"\n"}{end}`)
	want := fmt.Sprintf(`RateLimitPolicy daily User %q lets identifier "acme" pass for 1h0m0s with %s, confirmed by 2 of 2 replicas of Limiter %s/edge: INC-1234: import runs
RateLimitPolicy daily User %[1]q ended %[2]q, confirmed by 2 of 2 replicas of Limiter %[3]s/edge`, user, name, w.ns)
	if notes != want {
		w.Errorf("events %q, want %q", notes, want)
	}
	for i, r := range w.replicas {
		if !strings.Contains(r.Log(), "bypass created") || !strings.Contains(r.Log(), "bypass ended") {
			w.Errorf("replica %d does not log the bypass", i)
		}
	}
	reasons := w.kubectl("get", "events.events.k8s.io", "-n", w.ns, "-o", `jsonpath={range .items[?(@.regarding.kind=="RateLimitPolicy")]}{.reason} {end}`)
	if !strings.Contains(reasons, "Accepted") || !strings.Contains(reasons, "Programmed") {
		w.Errorf("the policy has events %s", reasons)
	}
}
