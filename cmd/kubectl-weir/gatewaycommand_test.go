package main

import (
	"bytes"
	"context"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-dev/weir/test/fixture/kubetest"
)

// gatewayWorld is an API server with Gateways and Limiters, without controllers.
type gatewayWorld struct {
	*testing.T
	client.Client

	kube *kubetest.KubeProcess
	user string // kubeconfig with the documented permissions
}

func (w *gatewayWorld) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// command runs kubectl weir gateway as the user, and compares the exit status and both outputs, in which "…" stands for any text.
func (w *gatewayWorld) command(exit int, line, stdout, stderr string) string {
	w.Helper()
	var out, errs bytes.Buffer
	got := run(append(append([]string{"gateway"}, strings.Fields(line)...), "--kubeconfig", w.user), &out, &errs)
	if got != exit {
		w.Errorf("%s: exit status %d, want %d\n%s%s", line, got, exit, &out, &errs)
	}
	for _, pair := range [][2]string{{out.String(), stdout}, {errs.String(), stderr}} {
		text, want := pair[0], pair[1]
		rest := text
		for i, part := range strings.Split(want, "…") {
			at := strings.Index(rest, part)
			if at < 0 || i == 0 && at > 0 {
				w.Errorf("%s:\n%s\nwant:\n%s", line, text, want)
				break
			}
			rest = rest[at+len(part):]
		}
		if rest != "" && !strings.HasSuffix(want, "…") {
			w.Errorf("%s:\n%s\nwant nothing after:\n%s", line, text, want)
		}
	}
	return out.String()
}

func object(kind schema.GroupVersionKind, namespace, name string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(kind)
	o.SetNamespace(namespace)
	o.SetName(name)
	return o
}

func securityPolicy() *unstructured.Unstructured {
	return object(schema.GroupVersionKind{Group: "gateway.envoyproxy.io", Version: "v1alpha1", Kind: "SecurityPolicy"}, "infra", "weir-public")
}

func referenceGrant(namespace, name string) *unstructured.Unstructured {
	return object(schema.GroupVersionKind{Group: "gateway.networking.k8s.io", Version: "v1beta1", Kind: "ReferenceGrant"}, namespace, name)
}

// read returns the JSON of a field of an object, or of the whole object.
func (w *gatewayWorld) read(o *unstructured.Unstructured, fields ...string) string {
	w.Helper()
	w.must(w.Get(w.Context(), client.ObjectKeyFromObject(o), o))
	var value any = o.Object
	for _, field := range fields {
		inner, is := value.(map[string]any)
		if !is {
			w.Fatalf("%s has no field %s: %v", o.GetName(), field, value)
		}
		value = inner[field]
	}
	text, err := json.Marshal(value)
	w.must(err)
	return string(text)
}

func (w *gatewayWorld) missing(o *unstructured.Unstructured) {
	w.Helper()
	if err := w.Get(w.Context(), client.ObjectKeyFromObject(o), o); !apierrors.IsNotFound(err) {
		w.Errorf("%s %s exists: %v", o.GetKind(), o.GetName(), err)
	}
}

// owner returns the kind and the name of the only owner, after a comparison of its UID.
func (w *gatewayWorld) owner(o *unstructured.Unstructured) string {
	w.Helper()
	owners := o.GetOwnerReferences()
	if len(owners) != 1 {
		w.Fatalf("%s has owners %v", o.GetName(), owners)
	}
	of := object(schema.FromAPIVersionAndKind(owners[0].APIVersion, owners[0].Kind), o.GetNamespace(), owners[0].Name)
	w.must(w.Get(w.Context(), client.ObjectKeyFromObject(of), of))
	if of.GetUID() != owners[0].UID {
		w.Errorf("%s has an owner with the UID %s, want %s", o.GetName(), owners[0].UID, of.GetUID())
	}
	return of.GetKind() + "/" + of.GetName()
}

// report writes the conditions that Envoy Gateway reports for the current generation of a SecurityPolicy: TYPE=STATUS REASON MESSAGE.
func (w *gatewayWorld) report(policy *unstructured.Unstructured, conditions ...string) {
	w.Helper()
	w.must(w.Get(w.Context(), client.ObjectKeyFromObject(policy), policy))
	var list []any
	for _, text := range conditions {
		words := strings.SplitN(text, " ", 3)
		name, status, _ := strings.Cut(words[0], "=")
		list = append(list, map[string]any{
			"type": name, "status": status, "reason": words[1], "message": words[2],
			"observedGeneration": policy.GetGeneration(), "lastTransitionTime": "2026-01-01T00:00:00Z",
		})
	}
	ancestor := map[string]any{"ancestorRef": map[string]any{"name": "public"}, "controllerName": "example.com/gateway", "conditions": list}
	w.must(unstructured.SetNestedSlice(policy.Object, []any{ancestor}, "status", "ancestors"))
	w.must(w.Client.Status().Update(w.Context(), policy))
}

// newGatewayWorld uses the API server that the tests share, and deletes its objects at the end of the test: only namespaces stay, because no
// controller finishes their deletion.
func newGatewayWorld(t *testing.T) *gatewayWorld {
	t.Helper()
	kube := kubetest.Kube(t)
	w := &gatewayWorld{T: t, kube: kube, user: kube.Kubeconfig()}
	if _, err := kube.Kubectl(t.Context(), "get", "crd", "securitypolicies.gateway.envoyproxy.io"); err != nil {
		w.must(kube.InstallGatewayAPI(t.Context()))
		w.kubectl("apply", "--server-side", "-f", filepath.Join("testdata", "securitypolicies.yaml"))
		w.must(kube.WaitForCRDs(t.Context(), "securitypolicies.gateway.envoyproxy.io"))
	}
	t.Cleanup(func() {
		_, err := kube.Kubectl(context.WithoutCancel(t.Context()), "delete", "--all", "--all-namespaces",
			"securitypolicies.gateway.envoyproxy.io,referencegrants.gateway.networking.k8s.io,gateways.gateway.networking.k8s.io,limiters.weir.dev")
		if err != nil {
			t.Error(err)
		}
		for _, namespace := range []string{"infra", "weir-system"} {
			if _, err := kube.Kubectl(context.WithoutCancel(t.Context()), "delete", "--all", "-n", namespace, "roles,rolebindings"); err != nil {
				t.Error(err)
			}
		}
	})
	w.kubectl("apply", "-f", filepath.Join("testdata", "gateways.yaml"))
	var err error
	w.Client, err = client.New(kube.Config(), client.Options{})
	w.must(err)
	config, err := kube.UserConfig("grace")
	w.must(err)
	w.user, err = kube.WriteKubeconfig("grace", config)
	w.must(err)
	return w
}

func (w *gatewayWorld) kubectl(arguments ...string) {
	w.Helper()
	_, err := w.kube.Kubectl(w.Context(), arguments...)
	w.must(err)
}

// grant gives the user permissions in a namespace, or in all if it is empty.
func (w *gatewayWorld) grant(namespace string, rules ...rbacv1.PolicyRule) {
	w.Helper()
	name := metav1.ObjectMeta{Namespace: namespace, Name: "grace" + namespace}
	subjects := []rbacv1.Subject{{Kind: "User", Name: "grace", APIGroup: rbacv1.GroupName}}
	if namespace == "" {
		w.must(w.Create(w.Context(), &rbacv1.ClusterRole{ObjectMeta: name, Rules: rules}))
		w.must(w.Create(w.Context(), &rbacv1.ClusterRoleBinding{
			ObjectMeta: name, Subjects: subjects, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name.Name},
		}))
		return
	}
	w.must(w.Create(w.Context(), &rbacv1.Role{ObjectMeta: name, Rules: rules}))
	w.must(w.Create(w.Context(), &rbacv1.RoleBinding{
		ObjectMeta: name, Subjects: subjects, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name.Name},
	}))
}

func permission(resource string, verbs ...string) rbacv1.PolicyRule {
	name, group, _ := strings.Cut(resource, ".")
	return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{name}, Verbs: verbs}
}

func TestGateway_AttachesListsAndDetaches(t *testing.T) {
	w := newGatewayWorld(t)
	w.command(1, "attach public -n infra", "", "kubectl weir gateway attach: read SecurityPolicy infra/weir-public: …grace…cannot get resource…")
	policies := permission("securitypolicies.gateway.envoyproxy.io", "get", "list", "create", "patch", "delete")
	grants := permission("referencegrants.gateway.networking.k8s.io", "get", "create", "patch", "delete")
	w.grant("infra", permission("gateways.gateway.networking.k8s.io", "get"), permission("limiters.weir.dev", "get"), policies, grants)
	w.grant("weir-system", permission("limiters.weir.dev", "get"), grants)

	policy, grant := securityPolicy(), referenceGrant("weir-system", "weir.infra.public")
	const listener = "note: listener http of the Gateway has SecurityPolicy listener: its requests do not reach Weir, unless you add spec.extAuth there\n"
	yaml := w.command(0, "attach public -n infra --dry-run -o yaml", "apiVersion: …kind: ReferenceGrant…\n---\n…kind: SecurityPolicy…", listener)
	if strings.Contains(yaml, "ownerReferences") {
		t.Errorf("a dry run has owners:\n%s", yaml)
	}
	w.missing(policy)
	w.missing(grant)

	w.command(1, "attach public -n infra --wait 1ms", "ReferenceGrant weir-system/weir.infra.public applied\nSecurityPolicy infra/weir-public applied\n",
		listener+"kubectl weir gateway attach: after 1ms, Gateway infra/public does not call Limiter weir-system/default: Pending: Envoy Gateway has not processed it…")
	const spec = `{"extAuth":{"failOpen":true,"grpc":{"backendRefs":[{"name":"weir-limiter-default","namespace":"weir-system","port":8081}],` +
		`"backendSettings":{"retry":{"numRetries":2,"retryOn":{"triggers":["refused-stream"]}}}},"includeRouteMetadata":true,"timeout":"100ms"},` +
		`"targetRefs":[{"group":"gateway.networking.k8s.io","kind":"Gateway","name":"public"}]}`
	if got := w.read(policy, "spec"); got != spec {
		t.Errorf("spec of the SecurityPolicy:\n%s\nwant\n%s", got, spec)
	}
	const permits = `{"from":[{"group":"gateway.envoyproxy.io","kind":"SecurityPolicy","namespace":"infra"}],` +
		`"to":[{"group":"","kind":"Service","name":"weir-limiter-default"}]}`
	if got := w.read(grant, "spec"); got != permits {
		t.Errorf("spec of the ReferenceGrant:\n%s\nwant\n%s", got, permits)
	}
	if w.owner(policy) != "Gateway/public" || w.owner(grant) != "Limiter/default" {
		t.Errorf("owners: %s, %s", w.owner(policy), w.owner(grant))
	}

	w.report(policy, "Accepted=True Accepted fine")
	w.command(0, "attach public -n infra", "…Gateway infra/public calls Limiter weir-system/default\n", listener)
	w.command(0, "list -n infra", "GATEWAY …infra/public  weir-system/default  infra/weir-public  Accepted…", "")
	w.report(policy, "Accepted=True Accepted fine", "Overridden=True Overridden replaced for routes [infra/x]")
	w.command(0, "attach public -n infra", "…calls Limiter weir-system/default\n", listener+"note: replaced for routes [infra/x]: …mergeType…")
	w.report(policy, "Overridden=False None -", "Accepted=False Invalid no grant")
	w.command(1, "list -n infra -o json", `{…"state": "Invalid"…"message": "no grant"…`, "")
	w.command(1, "list -A", "", "kubectl weir gateway list: list SecurityPolicies: …cannot list…")

	// A Limiter in the namespace of the Gateway needs no grant, so the previous one is deleted. The status is of the previous generation.
	w.command(0, "attach public -n infra --limiter infra/own --fail-open=false --timeout 1s --wait 0s", "SecurityPolicy infra/weir-public applied\n",
		listener+"note: Limiter infra/own requires TLS at its gRPC endpoint: create a BackendTLSPolicy for Service weir-limiter-own in its namespace\n"+
			"note: Limiter infra/own restricts the peers…")
	w.missing(grant)
	if got := w.read(policy, "spec", "extAuth"); !strings.Contains(got, `"failOpen":false`) || !strings.Contains(got, `"timeout":"1s"`) || w.owner(policy) != "Limiter/own" {
		t.Errorf("after a change: %s of %s", got, w.owner(policy))
	}
	w.command(1, "list -n infra", "…infra/own…Pending…", "")
	w.kubectl("-n", "infra", "delete", "limiter", "own")
	w.command(1, "list -n infra", "…infra/own…LimiterNotFound  detach the Gateway…", "")

	w.command(0, "detach public -n infra", "SecurityPolicy infra/weir-public deleted\n", "")
	w.missing(policy)
	w.command(0, "list -n infra", "No attached Gateways.\n", "")
	w.command(1, "detach public -n infra", "", "kubectl weir gateway detach: the Gateway is not attached: infra/public\n")

	// A SecurityPolicy that a user has deleted leaves the grant to detach.
	w.command(0, "attach public -n infra --wait 0s", "…", listener)
	w.must(w.Delete(t.Context(), securityPolicy()))
	w.command(0, "detach public -n infra", "ReferenceGrant weir-system/weir.infra.public deleted\n", "")
}

func TestGateway_LeavesOtherObjectsAlone(t *testing.T) {
	w := newGatewayWorld(t)
	w.user = w.kube.Kubeconfig()
	w.command(1, "attach none -n infra", "", "kubectl weir gateway attach: Gateway infra/none does not exist: check its name, and its namespace in --namespace\n")
	w.command(1, "attach public -n infra --limiter none", "", "kubectl weir gateway attach: there is no Limiter weir-system/none: create it, or select another with --limiter\n")
	const other = "the Gateway already has SecurityPolicy infra/jwt: Envoy Gateway obeys only the oldest of two. Add spec.extAuth there…"
	w.command(1, "attach taken -n infra", "", "kubectl weir gateway attach: "+other)
	w.command(0, "attach taken -n infra --dry-run", "ReferenceGrant weir-system/weir.infra.taken would be applied\nSecurityPolicy infra/weir-taken would be applied\n", "note: "+other)
	w.command(0, "attach taken -n infra --dry-run -o json", `{…"kind": "ReferenceGrant"…"kind": "SecurityPolicy"…"kind": "List"…`, "note: "+other)

	foreign := securityPolicy()
	foreign.Object["spec"] = map[string]any{"targetRefs": []any{}}
	w.must(w.Create(t.Context(), foreign))
	w.command(1, "attach public -n infra", "", "…SecurityPolicy infra/weir-public exists and was not created by this command: rename or delete it\n")
	w.command(1, "detach public -n infra", "", "kubectl weir gateway detach: SecurityPolicy infra/weir-public was not created by this command: it is not deleted\n")
	w.must(w.Get(t.Context(), client.ObjectKeyFromObject(foreign), foreign))

	for line, message := range map[string]string{
		"attach":                           "name one Gateway, and its namespace with --namespace",
		"attach infra/public":              "name one Gateway, and its namespace with --namespace",
		"attach public --limiter a/b/c":    `--limiter "a/b/c" is invalid`,
		"attach public --timeout 0s":       "--timeout 0s is invalid: must be between 1ms and 1m, in whole milliseconds",
		"attach public --timeout 2m":       "--timeout 2m0s is invalid",
		"attach public --timeout 1.5ms":    "--timeout 1.5ms is invalid",
		"attach public -o table":           `--output "table" is invalid: must be yaml or json`,
		"list -o name":                     `--output "name" is invalid`,
		"detach":                           "name one Gateway",
		"list --kubeconfig /does/not/work": "read the kubeconfig: stat /does/not/work",
	} {
		var out, errs bytes.Buffer
		if exit := run(append([]string{"gateway"}, strings.Fields(line)...), &out, &errs); exit != 2 || !strings.Contains(errs.String(), message) || out.Len() > 0 {
			t.Errorf("%s: exit status %d, %s%s, want %q", line, exit, &out, &errs, message)
		}
	}
}

func TestGateway_KeepsAReferenceGrantOfAUser(t *testing.T) {
	w := newGatewayWorld(t)
	w.user = w.kube.Kubeconfig()
	grant := referenceGrant("weir-system", "weir.infra.public")
	grant.Object["spec"] = map[string]any{
		"from": []any{map[string]any{"group": "gateway.envoyproxy.io", "kind": "SecurityPolicy", "namespace": "blog"}},
		"to":   []any{map[string]any{"group": "", "kind": "Service"}},
	}
	w.must(w.Create(t.Context(), grant))
	before := w.read(grant)
	w.command(1, "attach public -n infra --wait 0s", "",
		"kubectl weir gateway attach: ReferenceGrant weir-system/weir.infra.public exists and was not created by this command: rename or delete it\n")
	w.missing(securityPolicy()) // not half of an attachment
	w.command(1, "detach public -n infra", "", "kubectl weir gateway detach: ReferenceGrant weir-system/weir.infra.public was not created by this command: it is not deleted\n")
	if after := w.read(grant); after != before {
		t.Errorf("the ReferenceGrant of a user:\n%s\nbefore\n%s", after, before)
	}
}

func TestGateway_DetachKeepsSettingsOfUsers(t *testing.T) {
	w := newGatewayWorld(t)
	w.user = w.kube.Kubeconfig()
	policy, grant := securityPolicy(), referenceGrant("weir-system", "weir.infra.public")
	w.command(0, "attach public -n infra --wait 0s", "…", "…")
	w.kubectl("-n", "infra", "patch", "securitypolicy", "weir-public", "--type=merge", "-p",
		`{"metadata":{"labels":{"team":"a"}},"spec":{"jwt":{"optional":true},"extAuth":{"headersToExtAuth":["x-a"]}}}`)
	w.command(0, "attach public -n infra --timeout 1s --wait 0s", "…", "…")
	if spec := w.read(policy, "spec"); !strings.Contains(spec, `"jwt":{"optional":true}`) || !strings.Contains(spec, `"headersToExtAuth":["x-a"]`) ||
		!strings.Contains(spec, `"timeout":"1s"`) {
		t.Errorf("after a change of the timeout: %s", spec)
	}
	w.command(0, "detach public -n infra", "SecurityPolicy infra/weir-public kept without spec.extAuth, because users have added settings to it\n"+
		"ReferenceGrant weir-system/weir.infra.public deleted\n", "")
	const spec = `{"jwt":{"optional":true},"targetRefs":[{"group":"gateway.networking.k8s.io","kind":"Gateway","name":"public"}]}`
	if got := w.read(policy, "spec"); got != spec || w.read(policy, "metadata", "labels") != `{"team":"a"}` || len(policy.GetOwnerReferences()) > 0 {
		t.Errorf("after detach: %s, labels %v, owners %v, want %s", got, policy.GetLabels(), policy.GetOwnerReferences(), spec)
	}
	w.missing(grant)
}

func TestGateway_KeepsTheSettingsThatNoFlagSets(t *testing.T) {
	w := newGatewayWorld(t)
	w.user = w.kube.Kubeconfig()
	policy := securityPolicy()
	settings := func(want ...string) {
		t.Helper()
		spec := w.read(policy, "spec", "extAuth")
		for _, field := range want {
			if !strings.Contains(spec, field) {
				t.Errorf("%s is missing in %s", field, spec)
			}
		}
	}
	w.command(0, "attach public -n infra --limiter infra/own --fail-open=false --wait 0s", "…", "…")
	settings(`"failOpen":false`, `"timeout":"100ms"`, `"name":"weir-limiter-own"`)
	w.command(0, "attach public -n infra --timeout 1s --wait 0s", "SecurityPolicy infra/weir-public applied\n", "…")
	settings(`"failOpen":false`, `"timeout":"1s"`, `"name":"weir-limiter-own"`)
	w.command(0, "attach public -n infra --fail-open --wait 0s", "…", "…")
	settings(`"failOpen":true`, `"timeout":"1s"`, `"name":"weir-limiter-own"`)
	w.command(0, "attach public -n infra --limiter default --wait 0s", "…", "…")
	settings(`"failOpen":true`, `"timeout":"1s"`, `"name":"weir-limiter-default"`)
	dry := w.command(0, "attach public -n infra --timeout 2s --dry-run -o yaml", "…", "…")
	if !strings.Contains(dry, "timeout: 2s") || !strings.Contains(dry, "name: weir-limiter-default") {
		t.Errorf("a dry run:\n%s", dry)
	}
	// Without failOpen, Envoy Gateway denies requests without a decision. Only the flag changes that. A timeout has its default again.
	w.kubectl("-n", "infra", "patch", "securitypolicy", "weir-public", "--type=merge", "-p", `{"spec":{"extAuth":{"failOpen":null,"timeout":null}}}`)
	for _, flags := range []string{"", "--limiter weir-system/default", "--timeout 100ms"} {
		w.command(0, "attach public -n infra --wait 0s "+flags, "…", "…")
		settings(`"timeout":"100ms"`, `"name":"weir-limiter-default"`)
		if spec := w.read(policy, "spec", "extAuth"); strings.Contains(spec, "failOpen") {
			t.Errorf("attach %s sets failOpen, which a user has removed: %s", flags, spec)
		}
	}
	w.command(0, "attach public -n infra --fail-open --wait 0s", "…", "…")
	settings(`"failOpen":true`)
	// Without extAuth, the command creates it with the defaults.
	w.kubectl("-n", "infra", "patch", "securitypolicy", "weir-public", "--type=merge", "-p", `{"spec":{"extAuth":null,"jwt":{"optional":true}}}`)
	w.command(0, "attach public -n infra --wait 0s", "…", "…")
	settings(`"failOpen":true`, `"timeout":"100ms"`, `"name":"weir-limiter-default"`)
}

func TestGateway_RejectsAGatewayThatAnotherSecurityPolicySelects(t *testing.T) {
	w := newGatewayWorld(t)
	w.user = w.kube.Kubeconfig()
	w.kubectl("-n", "infra", "label", "gateway", "public", "tier=front")
	other := object(securityPolicy().GroupVersionKind(), "infra", "by-label")
	for selector, isOther := range map[string]bool{
		`{"kind":"Gateway"}`: true, `{"kind":"HTTPRoute"}`: false, `{"kind":"Gateway","group":"example.com"}`: false,
		`{"kind":"Gateway","group":"gateway.networking.k8s.io","matchLabels":{"tier":"front"}}`:            true,
		`{"kind":"Gateway","matchLabels":{"tier":"back"}}`:                                                 false,
		`{"kind":"Gateway","matchExpressions":[{"key":"tier","operator":"In","values":["front","back"]}]}`: true,
		`{"kind":"Gateway","matchExpressions":[{"key":"tier","operator":"NotIn","values":["front"]}]}`:     false,
		`{"kind":"Gateway","matchExpressions":[{"key":"tier","operator":"Unknown"}]}`:                      false,
	} {
		var fields map[string]any
		w.must(json.Unmarshal([]byte(selector), &fields))
		other.Object["spec"] = map[string]any{"targetSelectors": []any{map[string]any{"kind": "GRPCRoute"}, fields}}
		other.SetResourceVersion("")
		w.must(w.Create(t.Context(), other))
		if isOther {
			w.command(1, "attach public -n infra --wait 0s", "", "…the Gateway already has SecurityPolicy infra/by-label: Envoy Gateway obeys only the oldest…")
			w.missing(securityPolicy())
		} else {
			w.command(0, "attach public -n infra --wait 0s", "…", "…")
			w.command(0, "detach public -n infra", "…", "")
		}
		w.must(w.Delete(t.Context(), other))
	}
}
