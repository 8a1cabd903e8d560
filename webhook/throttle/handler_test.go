package throttle

import (
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/engine"
	"github.com/weir-dev/weir/limiter/exempt"
	"github.com/weir-dev/weir/limiter/failover"
	"github.com/weir-dev/weir/limiter/local"
	"github.com/weir-dev/weir/limiter/redisclient"
	"github.com/weir-dev/weir/limiter/redisstore"
	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/limiter/rules/matching"
	"github.com/weir-dev/weir/test/fixture"
)

// advice is at the end of every denial.
const advice = "; to raise the limit, contact the owner of the policy"

func denied(message string, retryAfter int32) *metav1.Status {
	return &metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusTooManyRequests, Reason: metav1.StatusReasonTooManyRequests, Message: message + advice,
		Details: &metav1.StatusDetails{Name: "settings", Kind: "ConfigMap", RetryAfterSeconds: retryAfter},
	}
}

// The test sends the reviews in order and compares the last response.
func TestHandler_Responses(t *testing.T) {
	create := reviewBody(t, "create")
	alice := reviewBody(t, "create", fromUser("alice"))
	thrice := [][]byte{create, create, create}
	leaky := func(r *rules.Rule) { r.Algorithm, r.Burst = limiter.LeakyBucket, 5 }
	bursting := func(r *rules.Rule) { r.Algorithm, r.Burst = limiter.TokenBucket, 2 }
	dear := func(r *rules.Rule) { r.Cost = &rules.Cost{Value: 4} }
	tests := map[string]struct {
		rules    []rules.Rule
		reviews  [][]byte
		status   *metav1.Status // nil means allowed
		warnings []string
		audit    map[string]string
	}{
		"no policy matches": {
			nil, thrice, nil, nil, map[string]string{"result": "unlimited"},
		},
		"far from the limit": {
			[]rules.Rule{limit("a", 10, hour)},
			thrice, nil, nil,
			map[string]string{"result": "allowed", "policy": "_cluster/a", "limit": "10", "remaining": "7", "source": "memory"},
		},
		"near the limit": {
			[]rules.Rule{limit("a", 3, 24*hour)},
			thrice, nil,
			[]string{"rate limit of policy _cluster/a: 3 of 3 per 24h used by Namespace acme"},
			map[string]string{"result": "allowed", "policy": "_cluster/a", "limit": "3", "remaining": "0", "source": "memory"},
		},
		"near five limits: three warnings, the strictest first": {
			[]rules.Rule{
				limit("a", 3, hour), limit("b", 3, time.Minute), limit("c", 3, hour, inShadow), limit("d", 3, 90*time.Second), limit("e", 3, hour),
			},
			thrice, nil,
			[]string{
				"rate limit of policy _cluster/a: 3 of 3 per 1h used by Namespace acme", "rate limit of policy _cluster/b: 3 of 3 per 1m used by Namespace acme",
				"rate limit of policy _cluster/d: 3 of 3 per 1m30s used by Namespace acme",
			},
			map[string]string{"result": "allowed", "policy": "_cluster/a", "limit": "3", "remaining": "0", "source": "memory"},
		},
		"the usage of a token bucket is that of its burst": {
			[]rules.Rule{limit("a", 60, time.Minute, bursting)},
			[][]byte{create, create},
			nil,
			[]string{"rate limit of policy _cluster/a: 2 of a burst of 2 used by Namespace acme"},
			map[string]string{"result": "allowed", "policy": "_cluster/a", "limit": "60", "remaining": "0", "source": "memory"},
		},
		"over the limit for an hour": {
			[]rules.Rule{limit("a", 2, hour)},
			thrice,
			denied("over the limit of policy _cluster/a: 2 per 1h for Namespace acme; retry in 1h", 0), nil,
			map[string]string{"result": "denied", "policy": "_cluster/a", "limit": "2", "remaining": "0", "source": "memory"},
		},
		"over the limit for seconds": {
			[]rules.Rule{limit("a", 2, 5*time.Second)},
			thrice,
			denied("over the limit of policy _cluster/a: 2 per 5s for Namespace acme; retry in 5s", 5), nil,
			map[string]string{"result": "denied", "policy": "_cluster/a", "limit": "2", "remaining": "0", "source": "memory"},
		},
		"over the limit for seconds, as a controller": {
			[]rules.Rule{limit("a", 2, 5*time.Second)},
			[][]byte{create, create, reviewBody(t, "create", fromUser("system:serviceaccount:flux-system:kustomize-controller"))},
			denied("over the limit of policy _cluster/a: 2 per 5s for Namespace acme; retry in 5s", 0), nil,
			map[string]string{"result": "denied", "policy": "_cluster/a", "limit": "2", "remaining": "0", "source": "memory"},
		},
		"over two limits: the longest wait": {
			[]rules.Rule{limit("a", 2, 5*time.Second), limit("b", 2, 2*time.Hour, byUser)},
			[][]byte{alice, alice, alice},
			denied("over the limit of policy _cluster/b: 2 per 2h for User alice; retry in 2h; also over the limit of _cluster/a", 0), nil,
			map[string]string{"result": "denied", "policy": "_cluster/b", "limit": "2", "remaining": "0", "source": "memory"},
		},
		"over one of three limits, one of which is in shadow": {
			[]rules.Rule{limit("a", 2, 5*time.Second), limit("b", 20, hour), limit("c", 2, hour, inShadow)},
			thrice,
			denied("over the limit of policy _cluster/a: 2 per 5s for Namespace acme; retry in 5s", 5), nil,
			map[string]string{"result": "denied", "policy": "_cluster/a", "limit": "2", "remaining": "0", "source": "memory", "shadow-denied": "_cluster/c"},
		},
		"a limit of 0": {
			[]rules.Rule{limit("a", 0, time.Minute), limit("b", 2, hour)},
			[][]byte{create},
			denied("over the limit of policy _cluster/a: 0 per 1m for Namespace acme; the limit is 0, so every such write is denied", 0), nil,
			map[string]string{"result": "denied", "policy": "_cluster/a", "limit": "0", "remaining": "0", "source": "none"},
		},
		"a write that costs more than the limit": {
			[]rules.Rule{limit("a", 3, time.Second, dear)},
			[][]byte{create},
			denied("over the limit of policy _cluster/a: 3 per 1s for Namespace acme; the write costs more than the limit ever allows", 0), nil,
			map[string]string{"result": "denied", "policy": "_cluster/a", "limit": "3", "remaining": "3", "source": "memory"},
		},
		"a leaky bucket admits a write without a warning": {
			[]rules.Rule{limit("a", 60, time.Minute, leaky)},
			[][]byte{create},
			nil, nil,
			map[string]string{"result": "allowed", "policy": "_cluster/a", "limit": "60", "remaining": "0", "source": "memory"},
		},
		"a leaky bucket denies a write that would have to wait": {
			[]rules.Rule{limit("a", 60, time.Minute, leaky)},
			[][]byte{create, create},
			denied("over the limit of policy _cluster/a: 60 per 1m for Namespace acme; retry in 1s", 1), nil,
			map[string]string{"result": "denied", "policy": "_cluster/a", "limit": "60", "remaining": "0", "source": "memory"},
		},
		"a policy in shadow is only in the audit annotations": {
			[]rules.Rule{limit("a", 2, hour, inShadow)},
			thrice, nil, nil,
			map[string]string{"result": "unlimited", "shadow-denied": "_cluster/a"},
		},
		"dry runs are not charged": {
			[]rules.Rule{limit("a", 2, hour)},
			[][]byte{reviewBody(t, "create", dryRun), reviewBody(t, "create", dryRun), reviewBody(t, "create", dryRun), create},
			nil, nil,
			map[string]string{"result": "allowed", "policy": "_cluster/a", "limit": "2", "remaining": "1", "source": "memory"},
		},
		"a dry run gets the decision of the write": {
			[]rules.Rule{limit("a", 2, hour)},
			[][]byte{create, create, reviewBody(t, "create", dryRun)},
			denied("over the limit of policy _cluster/a: 2 per 1h for Namespace acme; retry in 1h", 0), nil,
			map[string]string{"result": "denied", "policy": "_cluster/a", "limit": "2", "remaining": "0", "source": "memory"},
		},
		"an exempt user spends nothing": {
			[]rules.Rule{limit("a", 2, hour)},
			[][]byte{create, create, reviewBody(t, "create", fromUser("system:kube-controller-manager", "system:authenticated"))},
			nil, nil,
			map[string]string{"result": "exempt"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			handler := newTestHandler(t, newEngine(t, atNoon(), test.rules...))
			var got *admissionv1.AdmissionResponse
			for _, body := range test.reviews {
				got = reviewResponse(t, handler, body)
			}
			want := &admissionv1.AdmissionResponse{
				UID: "9054da0e-b526-45a6-8505-d5cf8c57f8b6", Allowed: test.status == nil, Result: test.status, Warnings: test.warnings, AuditAnnotations: test.audit,
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestDenial_EndsWithTheMessageOfThePolicy(t *testing.T) {
	custom := func(r *rules.Rule) { r.Denial = &rules.Denial{Message: "ask in #platform\nfor a higher limit\n"} }
	handler := newTestHandler(t, newEngine(t, atNoon(), limit("a", 1, time.Hour, custom)))
	create := reviewBody(t, "create")
	reviewResponse(t, handler, create)
	const want = "over the limit of policy _cluster/a: 1 per 1h for Namespace acme; retry in 1h; ask in #platform for a higher limit"
	if got := reviewResponse(t, handler, create).Result; got.Message != want || got.Code != http.StatusTooManyRequests {
		t.Errorf("%+v, want the message %q", got, want)
	}
}

func TestIsExempt_ByUserGroupAndNamespace(t *testing.T) {
	handler := newTestHandler(t, newEngine(t, atNoon(), limit("a", 1, hour)))
	reviewResponse(t, handler, reviewBody(t, "create"))
	tests := map[string]struct {
		who    []func(*admissionv1.AdmissionRequest)
		exempt bool
	}{
		"a tenant":                    {nil, false},
		"a user":                      {[]func(*admissionv1.AdmissionRequest){fromUser("alice", "system:authenticated")}, false},
		"an admin of the cluster":     {[]func(*admissionv1.AdmissionRequest){fromUser("root", "system:authenticated", "system:masters")}, true},
		"an admin by kubeadm":         {[]func(*admissionv1.AdmissionRequest){fromUser("kubernetes-admin", "system:authenticated", "kubeadm:cluster-admins")}, true},
		"a node":                      {[]func(*admissionv1.AdmissionRequest){fromUser("system:node:a", "system:nodes")}, true},
		"the API server itself":       {[]func(*admissionv1.AdmissionRequest){fromUser("system:apiserver", "system:authenticated")}, true},
		"a controller of the cluster": {[]func(*admissionv1.AdmissionRequest){fromUser("system:serviceaccount:kube-system:replicaset-controller", "system:serviceaccounts", "system:serviceaccounts:kube-system")}, true},
		"Weir":                        {[]func(*admissionv1.AdmissionRequest){fromUser("system:serviceaccount:weir-system:weir-operator", "system:serviceaccounts:weir-system")}, true},
		"a user with the name of an exempt group":      {[]func(*admissionv1.AdmissionRequest){fromUser("system:masters", "system:authenticated")}, false},
		"an exempt namespace":                          {[]func(*admissionv1.AdmissionRequest){inNamespace("kube-system")}, true},
		"a namespace with the prefix of an exempt one": {[]func(*admissionv1.AdmissionRequest){inNamespace("kube-system-acme")}, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := reviewResponse(t, handler, reviewBody(t, "create", test.who...))
			if result := got.AuditAnnotations["result"]; (result == "exempt") != test.exempt || test.exempt && !got.Allowed {
				t.Errorf("%s, allowed: %v", result, got.Allowed)
			}
		})
	}
	if !reviewResponse(t, NewHandler(newEngine(t, atNoon(), limit("a", 1, hour)), newTestSettings(t, Options{Exempt: exempt.Lists{Namespaces: []string{""}}}), Telemetry{}),
		reviewBody(t, "create", inNamespace(""))).Allowed {
		t.Error("an empty exempt namespace exempts cluster-scoped objects")
	}
}

func TestIsController_ByServiceAccountNamespace(t *testing.T) {
	tests := map[string]bool{
		"alice":                          false,
		"system:kube-controller-manager": true,
		"system:node:a":                  true,
		"system:serviceaccount:kube-system:replicaset-controller": true,
		"system:serviceaccount:argocd:application-controller":     true,
		"system:serviceaccount:acme:deployer":                     false,
		"system:serviceaccount:acme-too:deployer":                 true,
	}
	for user, want := range tests {
		in := &admissionv1.AdmissionRequest{Namespace: "acme", UserInfo: authenticationv1.UserInfo{Username: user}}
		if isController(in) != want {
			t.Errorf("%s: %v", user, !want)
		}
	}
	if !isController(&admissionv1.AdmissionRequest{UserInfo: authenticationv1.UserInfo{Username: "system:serviceaccount:acme:deployer"}}) {
		t.Error("a cluster-scoped object is not in the namespace of the service account")
	}
}

func TestToRequest_CopiesTheAttributesOfTheWrite(t *testing.T) {
	in, bad := decodeReview(reviewBody(t, "delete", func(in *admissionv1.AdmissionRequest) {
		in.SubResource, in.Resource.Group = "status", "apps"
		in.UserInfo.Extra = map[string]authenticationv1.ExtraValue{"authentication.kubernetes.io/pod-name": {"a", "b"}}
	}))
	if bad != nil {
		t.Fatal(bad)
	}
	got := toRequest(in)
	want := &rules.KubernetesRequest{
		Operation: "DELETE", Group: "apps", Version: "v1", Resource: "configmaps", Subresource: "status", Kind: "ConfigMap",
		Namespace: "acme", Name: "settings", User: "system:serviceaccount:acme:deployer",
		Groups:    []string{"system:serviceaccounts", "system:serviceaccounts:acme", "system:authenticated"},
		Extra:     map[string][]string{"authentication.kubernetes.io/pod-name": {"a", "b"}},
		OldObject: got.Kubernetes.OldObject, Options: []byte(`{"kind":"DeleteOptions","apiVersion":"meta.k8s.io/v1"}`),
	}
	if diff := cmp.Diff(want, got.Kubernetes); diff != "" || got.Domain != "acme" {
		t.Errorf("domain %q, -want +got:\n%s", got.Domain, diff)
	}
	if !strings.Contains(string(got.Kubernetes.OldObject), `"name":"settings"`) || got.Kubernetes.Object != nil {
		t.Errorf("objects %s and %s", got.Kubernetes.OldObject, got.Kubernetes.Object)
	}
	if in, _ := decodeReview(reviewBody(t, "update-dry-run")); !toRequest(in).Kubernetes.DryRun {
		t.Error("DryRun is false for a dry run")
	}
}

// The limiter allows these writes even if the API server calls the webhook, because another user has changed the configuration.
func TestHandler_AllowsWritesThatNoPolicyMayDeny(t *testing.T) {
	everything := func(r *rules.Rule) {
		r.Match.Kubernetes.Resources = []rules.KubernetesResources{{
			APIGroups: []string{"*"}, Resources: []string{"*/*"}, Operations: []string{"CREATE", "UPDATE", "DELETE", "CONNECT"},
		}}
	}
	handler := newTestHandler(t, newEngine(t, atNoon(), limit("everything", 1, hour, everything)))
	of := func(operation admissionv1.Operation, group, resource, subresource string) func(*admissionv1.AdmissionRequest) {
		return func(in *admissionv1.AdmissionRequest) {
			in.Operation, in.Resource, in.SubResource = operation, metav1.GroupVersionResource{Group: group, Version: "v1", Resource: resource}, subresource
		}
	}
	beingDeleted := func(in *admissionv1.AdmissionRequest) {
		of("UPDATE", "", "configmaps", "")(in)
		in.OldObject.Raw = []byte(`{"metadata":{"name":"a","finalizers":["a/b"],"deletionTimestamp":"2026-11-22T00:00:00Z"}}`)
	}
	withoutFinalizer := func(in *admissionv1.AdmissionRequest) {
		of("UPDATE", "", "configmaps", "")(in)
		in.OldObject.Raw, in.Object.Raw = []byte(`{"metadata":{"name":"a","finalizers":["a/b"]}}`), []byte(`{"metadata":{"name":"a"}}`)
	}
	for name, c := range map[string]struct {
		change  func(*admissionv1.AdmissionRequest)
		allowed bool
	}{
		"a role binding":                  {of("CREATE", "rbac.authorization.k8s.io", "rolebindings", ""), true},
		"a policy":                        {of("UPDATE", "weir.dev", "ratelimitpolicies", ""), true},
		"a lease":                         {of("UPDATE", "coordination.k8s.io", "leases", ""), true},
		"an eviction":                     {of("CREATE", "", "pods", "eviction"), true},
		"a node":                          {of("UPDATE", "", "nodes", "status"), true},
		"a deletion":                      {of("DELETE", "", "secrets", ""), true},
		"an object that is being deleted": {beingDeleted, true},
		"the removal of a finalizer":      {withoutFinalizer, true},
		"a network policy":                {of("CREATE", "networking.k8s.io", "networkpolicies", ""), false},
		"an update":                       {of("UPDATE", "", "configmaps", ""), false},
	} {
		t.Run(name, func(t *testing.T) {
			reviewResponse(t, handler, reviewBody(t, "create"))
			if got := reviewResponse(t, handler, reviewBody(t, "create", c.change)); got.Allowed != c.allowed {
				t.Errorf("allowed %v: %+v", got.Allowed, got)
			}
		})
	}
}

// API servers send the name of a Namespace object as its namespace.
func TestToRequest_PutsANamespaceObjectInNoNamespace(t *testing.T) {
	itself := func(in *admissionv1.AdmissionRequest) {
		in.Resource = metav1.GroupVersionResource{Version: "v1", Resource: "namespaces"}
		in.Namespace, in.Name, in.UserInfo.Username = "acme", "acme", "alice"
	}
	for name, test := range map[string]struct {
		change func(*rules.Rule)
		result string
	}{
		"a policy in it":                   {func(r *rules.Rule) { r.AllDomains, r.Domain = false, "acme" }, "unlimited"},
		"a policy for it among domains":    {func(r *rules.Rule) { r.AllDomains, r.Domains = false, []string{"acme"} }, "unlimited"},
		"a policy for it among namespaces": {func(r *rules.Rule) { r.Match.Kubernetes.Namespaces = []string{"acme"} }, "unlimited"},
		"a policy by namespace":            {func(r *rules.Rule) { r.Axis, r.Identifier.From = "Namespace", rules.FromKubernetesNamespace }, "unlimited"},
		"a policy for every domain":        {func(*rules.Rule) {}, "denied"},
	} {
		t.Run(name, func(t *testing.T) {
			onNamespaces := func(r *rules.Rule) { r.Match.Kubernetes.Resources[0].Resources = []string{"namespaces"} }
			handler := newTestHandler(t, newEngine(t, atNoon(), limit("a", 1, hour, byUser, onNamespaces, test.change)))
			reviewResponse(t, handler, reviewBody(t, "create", itself))
			if got := reviewResponse(t, handler, reviewBody(t, "create", itself)); got.AuditAnnotations[auditResult] != test.result {
				t.Errorf("%v, want %s", got.AuditAnnotations, test.result)
			}
		})
	}
}

func TestHandler_RejectsInvalidRequests(t *testing.T) {
	handler := newTestHandler(t, newEngine(t, atNoon()))
	swap := func(old, by string) io.Reader {
		return strings.NewReader(strings.Replace(string(reviewBody(t, "create")), old, by, 1))
	}
	tests := map[string]struct {
		method, path string
		body         io.Reader
		status       int
		detail       string
	}{
		"nothing":                  {"POST", Path, http.NoBody, 400, "is not an AdmissionReview"},
		"no JSON":                  {"POST", Path, strings.NewReader("<a/>"), 400, "is not an AdmissionReview"},
		"half of a review":         {"POST", Path, iotest.TimeoutReader(iotest.OneByteReader(swap("", ""))), 400, "ended early"},
		"a list":                   {"POST", Path, strings.NewReader("[]"), 400, "is not an AdmissionReview"},
		"an older review":          {"POST", Path, swap("admission.k8s.io/v1", "admission.k8s.io/v1beta1"), 400, "v1beta1"},
		"another kind":             {"POST", Path, swap("AdmissionReview", "Pod"), 400, `\"Pod\"`},
		"no request":               {"POST", Path, strings.NewReader(`{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1"}`), 400, "has no request"},
		"no uid":                   {"POST", Path, swap(`"uid":"9054da0e-b526-45a6-8505-d5cf8c57f8b6"`, `"uid":""`), 400, "without a uid"},
		"a name of the wrong type": {"POST", Path, swap(`"name":"settings"`, `"name":1`), 400, "is not an AdmissionReview"},
		"a body that is too large": {"POST", Path, strings.NewReader(strings.Repeat(" ", maxBody) + "{}"), 400, "larger than 33554432 bytes"},
		"a body that is too large, of unknown length": {"POST", Path, io.MultiReader(strings.NewReader(strings.Repeat(" ", maxBody)), strings.NewReader("{}")), 411, "larger than 65536 bytes and has no Content-Length"},
		"a GET":                          {"GET", Path, http.NoBody, 405, "use POST"},
		"another path":                   {"POST", "/v1/check", swap("", ""), 404, "no such path /v1/check"},
		"a path with control characters": {"POST", "/%0a", swap("", ""), 404, "no such path /\uFFFD"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, httptest.NewRequest(test.method, test.path, test.body))
			if w.Code != test.status || !strings.Contains(w.Body.String(), test.detail) || w.Header().Get("Content-Type") != "application/problem+json" {
				t.Errorf("%d %s", w.Code, w.Body)
			}
		})
	}
}

// Both objects have the largest size that an API server accepts. JSON encodes each of their bytes as six.
func TestHandler_AcceptsTheLargestReview(t *testing.T) {
	object := func(name string) runtime.RawExtension {
		return runtime.RawExtension{Raw: []byte(`{"data":{"a":"` + name + `"}}`)}
	}
	body := reviewBody(t, "create", func(in *admissionv1.AdmissionRequest) { in.Object, in.OldObject = object("NEW"), object("OLD") })
	for name, n := range map[string]int{"NEW": 3 << 20, "OLD": 3 << 19} { // to encode so much takes seconds with the race detector
		body = bytes.Replace(body, []byte(name), bytes.Repeat([]byte(`\u003c`), n), 1)
	}
	if len(body) < 27<<20 {
		t.Fatalf("a review of %d bytes is not the largest", len(body))
	}
	handler := newTestHandler(t, newEngine(t, atNoon(), limit("a", 1, hour)))
	if !reviewResponse(t, handler, body).Allowed {
		t.Error("the largest review is denied")
	}
	if reviewResponse(t, handler, reviewBody(t, "create")).Allowed {
		t.Error("the largest review was not charged")
	}
}

// blockingEngine blocks each check until release is closed, and counts the checks.
type blockingEngine struct {
	inside  atomic.Int64
	release chan struct{}
}

func (h *blockingEngine) Check(context.Context, *engine.Check) (engine.Answer, error) {
	h.inside.Add(1)
	<-h.release
	return engine.Answer{Allowed: true}, nil
}

func TestHandler_LargeReviewsWaitAndSmallOnesDoNot(t *testing.T) {
	h := &blockingEngine{release: make(chan struct{})}
	handler := newTestHandler(t, h)
	large, small := reviewBody(t, "create", withObjectSize(2<<20)), reviewBody(t, "create")
	concurrent := maxLargeBytes / int64(len(large))
	many := concurrent + 3 // not more: on a busy machine, the timeout of a large review must suffice for all of them in turn
	var calling sync.WaitGroup
	send := func(body []byte) {
		for range many {
			calling.Go(func() {
				w := httptest.NewRecorder()
				if handler.ServeHTTP(w, httptest.NewRequest(http.MethodPost, Path, bytes.NewReader(body))); w.Code != http.StatusOK {
					t.Errorf("%d %s", w.Code, w.Body)
				}
			})
		}
	}
	send(large)
	fixture.Await(t, "the largest allowed number of large reviews is handled", func() bool { return h.inside.Load() == concurrent })
	send(small)
	fixture.Await(t, "the small reviews are handled, too", func() bool { return h.inside.Load() == concurrent+many })
	r := httptest.NewRequest(http.MethodPost, Path+"?timeout=10ms", bytes.NewReader(large))
	w := httptest.NewRecorder()
	if handler.ServeHTTP(w, r); w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), "other large bodies") {
		t.Errorf("a large review without time left: %d %s", w.Code, w.Body)
	}
	close(h.release)
	calling.Wait()
	if n := h.inside.Load(); n != 2*many {
		t.Errorf("%d reviews were handled, want %d", n, 2*many)
	}
}

// stubEngine returns a fixed answer, and records the check.
type stubEngine struct {
	answer engine.Answer
	err    error
	left   time.Duration
	check  engine.Check
}

func (s *stubEngine) Check(ctx context.Context, c *engine.Check) (engine.Answer, error) {
	deadline, _ := ctx.Deadline()
	s.left, s.check = time.Until(deadline), *c
	return s.answer, s.err
}

func TestDecisionTimeout_IsBelowTheTimeoutOfTheAPIServer(t *testing.T) {
	for query, want := range map[string]time.Duration{
		"?timeout=2s": 1600 * time.Millisecond, "?timeout=1s": 800 * time.Millisecond, "": 8 * time.Second, "?timeout=30s": 8 * time.Second,
		"?timeout=soon": 8 * time.Second, "?timeout=-1s": 8 * time.Second, "?timeout=0s": 8 * time.Second,
	} {
		s := &stubEngine{answer: engine.Answer{Allowed: true}}
		w := httptest.NewRecorder()
		newTestHandler(t, s).ServeHTTP(w, httptest.NewRequest(http.MethodPost, Path+query, strings.NewReader(string(reviewBody(t, "create")))))
		if w.Code != http.StatusOK || s.left > want || s.left < want-want/4 {
			t.Errorf("%q: %v, want %v (%d)", query, s.left, want, w.Code)
		}
		if !s.check.NoDelay || s.check.Peek || s.check.Cost != 1 {
			t.Errorf("%+v", s.check)
		}
	}
}

func TestFailureResponse_AllowsUnlessThePolicyDenies(t *testing.T) {
	own, foreign := reviewBody(t, "create"), reviewBody(t, "create", fromUser("system:serviceaccount:argocd:controller"))
	tests := map[string]struct {
		err    error
		body   []byte
		status *metav1.Status
		audit  map[string]string
	}{
		"no rules yet": {engine.ErrNoRules, own, nil, map[string]string{"result": "undecided", "cause": "no rules are loaded yet; see /readyz for the reason"}},
		"a store that fails": {
			errors.New("dial 10.0.0.1"), own, nil,
			map[string]string{"result": "undecided", "cause": "the counters are unavailable; the request may or may not have been counted"},
		},
		"a policy that denies": {
			&engine.RefusedError{Policy: "_cluster/a"}, own, unavailable(1),
			map[string]string{"result": "refused", "policy": "_cluster/a", "cause": "policy _cluster/a denies requests while its counters are unavailable"},
		},
		"a policy that denies a controller": {
			&engine.RefusedError{Policy: "_cluster/a"}, foreign, unavailable(0),
			map[string]string{"result": "refused", "policy": "_cluster/a", "cause": "policy _cluster/a denies requests while its counters are unavailable"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := reviewResponse(t, newTestHandler(t, &stubEngine{err: test.err}), test.body)
			want := &admissionv1.AdmissionResponse{UID: got.UID, Allowed: test.status == nil, Result: test.status, AuditAnnotations: test.audit}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func unavailable(retryAfter int32) *metav1.Status {
	return &metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusServiceUnavailable, Reason: metav1.StatusReasonServiceUnavailable,
		Message: "policy _cluster/a denies requests while its counters are unavailable",
		Details: &metav1.StatusDetails{Name: "settings", Kind: "ConfigMap", RetryAfterSeconds: retryAfter},
	}
}

// allowedResult returns the result of a rule that allows the write.
func allowedResult(policy, identifier string, remaining int64) engine.Result {
	return engine.Result{
		Rule:       &matching.Compiled{Rule: rules.Rule{Policy: policy, Axis: "Custom", Algorithm: limiter.FixedWindow}},
		Identifier: identifier, Window: time.Minute, Source: engine.SourceRedis,
		Decision: limiter.Decision{Allowed: true, Limit: 100, Remaining: remaining},
	}
}

func TestWarnings_ReportUsageNearTheLimit(t *testing.T) {
	long := strings.Repeat("a", 253)
	unavailableStore := allowedResult("_cluster/a", "acme", 0)
	unavailableStore.Source = engine.SourceLocal
	tests := map[string]struct {
		result  engine.Result
		percent int
		want    []string
	}{
		"one unit below the percentage":        {allowedResult("_cluster/a", "acme", 21), 80, nil},
		"at the percentage":                    {allowedResult("_cluster/a", "acme", 20), 80, []string{"rate limit of policy _cluster/a: 80 of 100 per 1m used by Custom acme"}},
		"never with 0":                         {allowedResult("_cluster/a", "acme", 0), 0, nil},
		"only at the limit with 100":           {allowedResult("_cluster/a", "acme", 1), 100, nil},
		"without an identifier":                {allowedResult("_cluster/a", limiter.Missing, 0), 80, []string{"rate limit of policy _cluster/a: 100 of 100 per 1m used by writes without a Custom"}},
		"control characters and invalid UTF-8": {allowedResult("_cluster/a", "a\nb\x00c\xffd", 0), 80, []string{"rate limit of policy _cluster/a: 100 of 100 per 1m used by Custom a\uFFFDb\uFFFDc\uFFFDd"}},
		"the usage is unknown":                 {unavailableStore, 80, nil},
		"a long identifier is cut short":       {allowedResult("_cluster/a", long, 0), 80, []string{"rate limit of policy _cluster/a: 100 of 100 per 1m used by Custom " + strings.Repeat("a", 53) + "…"}},
		"a long policy name":                   {allowedResult("_cluster/"+long[:100], "acme", 0), 80, []string{"rate limit of policy _cluster/" + long[:100] + ": 100 of 100 per 1m used"}},
		"just enough room for 16 characters":   {allowedResult("_cluster/"+long[:46], "acme", 0), 80, []string{"rate limit of policy _cluster/" + long[:46] + ": 100 of 100 per 1m used by Custom acme"}},
		"room for 15 characters":               {allowedResult("_cluster/"+long[:47], "acme", 0), 80, []string{"rate limit of policy _cluster/" + long[:47] + ": 100 of 100 per 1m used"}},
		"the longest policy name is cut off":   {allowedResult(long+"/"+long, "acme", 0), 80, []string{"rate limit of policy " + long[:127] + "…: 100 of 100 per 1m used"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			settings := newTestSettings(t, Options{WarnPercent: test.percent})
			got := settings.warnings(&engine.Answer{Allowed: true, Results: []engine.Result{test.result}})
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			for _, warning := range got {
				if n := len([]rune(warning)); n > maxWarning || n > preferredWarning && len(test.result.Rule.Policy) < 80 {
					t.Errorf("the warning has %d characters", n)
				}
			}
		})
	}
}

func TestUsage_UsesTheBurstOfTheTier(t *testing.T) {
	r := allowedResult("_cluster/a", "acme", 3)
	r.Rule.Algorithm, r.Rule.Burst = limiter.TokenBucket, 5
	r.Rule.Tiers = []rules.Tier{{Name: "gold", Units: 1000, Burst: 10}}
	for tier, want := range map[string]int64{"": 2, "gold": 7} {
		r.Tier = tier
		if used, _, known := usage(&r); used != want || !known {
			t.Errorf("tier %q: %d units used, want %d", tier, used, want)
		}
	}
}

func TestDenial_NamesTheTierAndHidesSecrets(t *testing.T) {
	gold := func(r *rules.Rule) {
		r.Tiers = []rules.Tier{{Name: "gold", When: rules.When{Identifiers: []string{testHashKey().Hash("acme")}}, Units: 1}}
		r.Identifier.Secret = true
	}
	handler := newTestHandler(t, newEngine(t, atNoon(), limit("a", 5, hour, gold)))
	reviewResponse(t, handler, reviewBody(t, "create"))
	got := reviewResponse(t, handler, reviewBody(t, "create"))
	want := "over the limit of policy _cluster/a: 1 per 1h (tier gold) for Namespace " + testHashKey().Hash("acme") + "; retry in 1h" + advice
	if got.Allowed || got.Result.Message != want {
		t.Errorf("%+v", got.Result)
	}
}

func TestAuditKeys_AreAcceptedByAPIServers(t *testing.T) {
	for _, key := range []string{auditResult, auditPolicy, auditLimit, auditRemaining, auditSource, auditShadow, auditCause} {
		if wrong := validation.IsQualifiedName("default.weir-system.throttle.weir.dev/" + key); wrong != nil {
			t.Errorf("%s: %v", key, wrong)
		}
	}
}

func TestSeconds_RoundsUp(t *testing.T) {
	for d, want := range map[time.Duration]int64{0: 0, time.Nanosecond: 1, time.Second: 1, 1500 * time.Millisecond: 2, 2 * time.Second: 2} {
		if got := seconds(d); got != want {
			t.Errorf("%v: %d seconds, want %d", d, got, want)
		}
	}
}

func TestNewSettings_RejectsOptionsOutOfRange(t *testing.T) {
	for name, s := range map[string]Options{
		"a negative retry-after": {MaxRetryAfter: -time.Second}, "a retry-after above a minute": {MaxRetryAfter: 61 * time.Second},
		"a fraction of a second": {MaxRetryAfter: 1500 * time.Millisecond}, "a negative percentage": {WarnPercent: -1}, "a percentage above 100": {WarnPercent: 101},
	} {
		if _, err := NewSettings(s); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestDetails_OmitRetryAfterWhenDisabled(t *testing.T) {
	settings := newTestSettings(t, Options{})
	if got := settings.details(&admissionv1.AdmissionRequest{}, time.Microsecond); got.RetryAfterSeconds != 0 {
		t.Errorf("RetryAfterSeconds is %d, want 0", got.RetryAfterSeconds)
	}
}

// Many API servers call the handler concurrently, with counters in Redis and in memory.
func TestHandler_SpendsEachUnitOnceUnderConcurrency(t *testing.T) {
	redis := fixture.Redis(t)
	client, err := redisclient.Open(redis.URL(), time.Second)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	for name, store := range map[string]limiter.Store{"memory": atNoon(), "redis": redisstore.NewStore(client, time.Second)} {
		t.Run(name, func(t *testing.T) {
			const units, callers, each = 60, 8, 20
			handler := newTestHandler(t, newEngine(t, store, limit("a", units, hour)))
			body := reviewBody(t, "create")
			dryRun := reviewBody(t, "update-dry-run")
			var mu sync.Mutex
			passed := map[string]int{}
			var calling sync.WaitGroup
			for range callers {
				calling.Go(func() {
					for range each {
						got, dry := reviewResponse(t, handler, body), reviewResponse(t, handler, dryRun)
						mu.Lock()
						passed[got.AuditAnnotations["result"]]++
						passed["dry "+dry.AuditAnnotations["source"]]++
						mu.Unlock()
					}
				})
			}
			calling.Wait()
			want := map[string]int{"allowed": units, "denied": callers*each - units, "dry memory": callers * each}
			if !maps.Equal(want, passed) {
				t.Errorf("%v, want %v", passed, want)
			}
		})
	}
}

// The test stops a real Redis.
func TestHandler_AppliesOnStoreFailureWhileRedisIsUnavailable(t *testing.T) {
	redis := fixture.Redis(t)
	client, err := redisclient.Open(redis.URL(), 50*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	store := redisstore.NewStore(client, 50*time.Millisecond)
	on := func(failure rules.StoreFailure, user string) func(*rules.Rule) {
		return func(r *rules.Rule) {
			r.OnStoreFailure, r.Match.Kubernetes.Users = failure, []string{user}
		}
	}
	surviving := failover.New(store, local.New(1<<20, time.Now), time.Now, discard())
	e := engine.New(surviving, engine.SourceRedis, engine.NewMetrics(prometheus.NewRegistry()))
	index, err := matching.NewIndex(rules.Set{Rules: []rules.Rule{
		limit("allow", 1, hour, on(rules.AllowOnFailure, "allow")), limit("deny", 9, hour, on(rules.DenyOnFailure, "deny")),
		limit("local", 2, hour, on(rules.LocalOnFailure, "local")),
	}}, "sha256:1", "weir:")
	if err != nil {
		t.Fatal(err)
	}
	e.Swap(index)
	guarded, unguard := context.WithCancel(context.Background())
	t.Cleanup(unguard)
	store.EnableBreaker(guarded, surviving)
	handler := newTestHandler(t, e)
	send := func(user string) *admissionv1.AdmissionResponse {
		return reviewResponse(t, handler, reviewBody(t, "create", fromUser(user)))
	}
	for _, user := range []string{"allow", "deny", "local"} {
		if got := send(user); !got.Allowed || got.AuditAnnotations["source"] != "redis" {
			t.Fatalf("%s, before the outage: %+v", user, got)
		}
	}
	redis.Kill()
	for range 3 {
		if got := send("allow"); !got.Allowed || got.AuditAnnotations["source"] != "local" {
			t.Errorf("Allow: %+v", got)
		}
		if got := send("deny"); got.Allowed || got.Result.Code != http.StatusServiceUnavailable {
			t.Errorf("Deny: %+v", got)
		}
	}
	if got := send("local"); !got.Allowed || got.AuditAnnotations["source"] != "local" || got.Warnings != nil {
		t.Errorf("Local, the last unit: %+v", got)
	}
	if got := send("local"); got.Allowed || got.Result.Code != http.StatusTooManyRequests {
		t.Errorf("Local, over the limit: %+v", got)
	}
}
