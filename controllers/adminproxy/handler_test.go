package adminproxy

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/controllers/adminproxy/proxyapi"
	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/mutualtls"
)

// harness is an endpoint with an API server whose users authenticate with their name as a token, and have the permissions in allowed.
type harness struct {
	*testing.T
	kube    client.WithWatch
	key     *limiter.HashKey
	handler http.Handler
	caller  *caller
	allowed map[string]bool
	mu      sync.Mutex // of asked
	asked   []string
	log     bytes.Buffer
	pods    int
}

func newHarness(t *testing.T) *harness {
	t.Helper()
	h := &harness{T: t, key: limiter.RandomHashKey(), allowed: map[string]bool{}}
	scheme := runtime.NewScheme()
	if err := errors.Join(v1alpha1.AddToScheme(scheme), corev1.AddToScheme(scheme), eventsv1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	cluster := &v1alpha1.ClusterRateLimitPolicy{ObjectMeta: metav1.ObjectMeta{Name: "all", UID: "uid-all"}}
	policy := &v1alpha1.RateLimitPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "daily", UID: "uid-daily"}}
	twin := &v1alpha1.RateLimitPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "cluster", Name: "all", UID: "uid-twin"}}
	of := &v1alpha1.Limiter{ObjectMeta: metav1.ObjectMeta{Namespace: "edge", Name: "main"}}
	h.kube = fake.NewClientBuilder().WithScheme(scheme).WithObjects(cluster, policy, twin, of).Build()
	endpoint := newHandler(Config{
		Access: &Access{Authenticator: authenticator.RequestFunc(authenticate), Authorizer: authorizer.AuthorizerFunc(h.authorize)},
		Client: h.kube, Uncached: h.kube, HashKey: h.key, Log: slog.New(slog.NewTextHandler(&h.log, nil)),
	})
	h.handler, h.caller = endpoint.mux(), endpoint.caller
	return h
}

func authenticate(r *http.Request) (*authenticator.Response, bool, error) {
	name, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	return &authenticator.Response{User: &user.DefaultInfo{Name: name}}, ok, nil
}

func (h *harness) authorize(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	permission := fmt.Sprintf("%s %s %s.%s/%s of %s/%s", a.GetUser().GetName(), a.GetVerb(), a.GetResource(), a.GetAPIGroup(), a.GetSubresource(),
		a.GetNamespace(), a.GetName())
	h.mu.Lock()
	defer h.mu.Unlock()
	h.asked = append(h.asked, permission)
	if h.allowed[permission] && a.IsResourceRequest() {
		return authorizer.DecisionAllow, "", nil
	}
	return authorizer.DecisionNoOpinion, "", nil
}

// pod creates a pod of the Limiter edge/main. With answer, it serves the admin endpoint, and answer gets the requests.
func (h *harness) pod(change func(*corev1.Pod), answer http.HandlerFunc) {
	h.Helper()
	h.pods++
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "edge", Name: fmt.Sprintf("main-%d", h.pods), UID: types.UID(strconv.Itoa(h.pods)), Labels: map[string]string{
			"app.kubernetes.io/name": "weir", "app.kubernetes.io/component": "limiter", "app.kubernetes.io/instance": "main",
		}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "limiter", Ports: []corev1.ContainerPort{{Name: "admin", ContainerPort: 1}}}}},
	}
	if answer != nil {
		host, port, err := net.SplitHostPort(h.serve(answer))
		if err != nil {
			h.Fatal(err)
		}
		number, err := strconv.ParseInt(port, 10, 32)
		if err != nil {
			h.Fatal(err)
		}
		pod.Status.PodIP, pod.Spec.Containers[0].Ports[0].ContainerPort = host, int32(number)
	}
	if change != nil {
		change(pod)
	}
	if err := h.kube.Create(h.Context(), pod); err != nil {
		h.Fatal(err)
	}
}

// serve starts a replica of the Limiter edge/main, and returns its address.
func (h *harness) serve(answer http.HandlerFunc) string {
	h.Helper()
	operator, err := mutualtls.ParsePublic(mutualtls.PublicText(mutualtls.OperatorKey(h.key)))
	if err != nil {
		h.Fatal(err)
	}
	config, err := mutualtls.Server(mutualtls.LimiterKey(h.key.Derive("edge/main")), operator)
	if err != nil {
		h.Fatal(err)
	}
	s := httptest.NewUnstartedServer(answer)
	s.Config.ErrorLog, s.TLS = log.New(io.Discard, "", 0), config
	s.StartTLS()
	h.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

func (h *harness) call(user, method, path, body string) (status int, text string) {
	h.Helper()
	r := httptest.NewRequest(method, "/admin/v1/limiters/"+path, strings.NewReader(body))
	if user != "" {
		r.Header.Set("Authorization", "Bearer "+user)
	}
	w := httptest.NewRecorder()
	h.handler.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

func TestHandler_RequiresThePermissionOfEachRequest(t *testing.T) {
	h := newHarness(t)
	h.pod(nil, func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/denials") {
			w.WriteHeader(http.StatusTeapot) // does not begin a stream
		}
		_, _ = io.WriteString(w, "{}")
	})
	for _, test := range []struct{ method, path, permission, role string }{
		{"GET", "top", "get limiters.weir.dev/top of edge/main", "weir-observer"},
		{"GET", "redis", "get limiters.weir.dev/redis of edge/main", "weir-observer"},
		{"GET", "denials", "get limiters.weir.dev/denials of edge/main", "weir-observer"},
		{"POST", "explain", "get limiters.weir.dev/explanations of edge/main", "weir-observer"},
		{"GET", "rules", "get limiters.weir.dev/rules of edge/main", "weir-observer"},
		{"GET", "counters", "get limiters.weir.dev/counters of edge/main", "weir-observer"},
		{"POST", "counters/reset", "create limiters.weir.dev/resets of edge/main", "weir-responder"},
	} {
		if status, text := h.call("", test.method, "edge/main/"+test.path, ""); status != 401 || len(h.asked) > 0 {
			t.Errorf("%s without a user: %d %s", test.path, status, text)
		}
		status, text := h.call("jane", test.method, "edge/main/"+test.path, "")
		if want := []string{"jane " + test.permission}; status != 403 || !slices.Equal(h.asked, want) || !strings.Contains(text, "bind the ClusterRole "+test.role) {
			t.Errorf("%s: %d %s, asked %q", test.path, status, text, h.asked)
		}
		h.allowed["jane "+test.permission] = true
		if status, text := h.call("jane", test.method, "edge/main/"+test.path, "{}"); status != map[bool]int{true: 418, false: 200}[test.path == "denials"] {
			t.Errorf("%s with the permission: %d %s", test.path, status, text)
		}
		clear(h.allowed)
		h.asked = nil
	}
	for _, path := range []string{"edge/main/pprof/heap", "edge/main/log-level", "edge/main", ""} {
		if status, _ := h.call("jane", "GET", path, ""); status != 404 {
			t.Errorf("%s: %d, want 404", path, status)
		}
	}
}

func TestHandler_NamesEachReplicaThatDoesNotAnswer(t *testing.T) {
	h := newHarness(t)
	h.allowed["jane get limiters.weir.dev/rules of edge/main"] = true
	h.allowed["jane get limiters.weir.dev/rules of edge/other"] = true
	if status, text := h.call("jane", "GET", "edge/other/rules", ""); status != 404 || !strings.Contains(text, "Limiter edge/other does not exist") {
		t.Errorf("%d %s", status, text)
	}
	if status, text := h.call("jane", "GET", "edge/main/rules", ""); status != 503 || !strings.Contains(text, "has no pods") {
		t.Errorf("%d %s", status, text)
	}
	revision := func(text string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/admin/v1/rules" || r.URL.RawQuery != "a=b%2Fc" || r.Header.Get("Weir-Caller") != "jane" {
				t.Errorf("got %s for %q", r.URL, r.Header.Get("Weir-Caller"))
			}
			fmt.Fprintf(w, `{"revision":%q}`, text)
		}
	}
	h.pod(nil, revision("new"))
	h.pod(nil, revision("old"))
	h.pod(nil, revision("new"))
	h.pod(nil, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = io.WriteString(w, `{"detail":"no rules"}`)
	})
	h.pod(nil, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>") })
	h.pod(func(p *corev1.Pod) { p.Status.Phase = corev1.PodPending }, nil)
	h.pod(func(p *corev1.Pod) { p.Spec.Containers[0].Ports, p.Status.PodIP = nil, "127.0.0.1" }, nil)
	h.pod(func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }, nil)
	h.pod(func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }, nil)
	status, text := h.call("jane", "GET", "edge/main/rules?a=b%2Fc", "")
	var answer proxyapi.Answer
	if err := json.Unmarshal([]byte(text), &answer); err != nil || status != 200 {
		t.Fatalf("%d %s: %v", status, text, err)
	}
	var got []string
	for _, r := range answer.Replicas {
		got = append(got, fmt.Sprintf("%s %d %s%s%s", r.Pod, r.Status, r.Body, r.SameAs, r.Error))
	}
	want := []string{
		`main-1 200 {"revision":"new"}`, `main-2 200 {"revision":"old"}`, `main-3 200 main-1`, `main-4 503 {"detail":"no rules"}`,
		`main-5 0 the answer with status 200 is not JSON`, `main-6 0 the pod is starting: it has no address yet`,
		`main-7 0 it has no admin endpoint, because an older version of the operator started it`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func TestRecordReset_CreatesAnEventForEachResetWithTheUserAndTheReason(t *testing.T) {
	h := newHarness(t)
	for _, user := range []string{"jane", "john"} {
		h.allowed[user+" create limiters.weir.dev/resets of edge/main"] = true
	}
	answers := `{"identifier":"hash:77","counters":[]}`
	h.pod(nil, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, answers) })
	h.pod(func(p *corev1.Pod) { p.Status.Phase = corev1.PodPending }, nil)
	reset := func(user, body string) {
		t.Helper()
		if status, text := h.call(user, "POST", "edge/main/counters/reset", body); status != 200 {
			t.Errorf("%d %s", status, text)
		}
	}
	reset("jane", `{"policy":"shop/daily","identifier":"secret-key","reason":"INC-1"}`)
	reset("john", `{"policy":"shop/daily","identifier":"secret-key","reason":"INC-2"}`)
	reset("john", `{"policy":"shop/daily","identifier":"secret-key","reason":"INC-3","dryRun":true}`)
	answers = `{"counters":[{"policy":"_cluster/all","identifier":"acme"},{"policy":"shop/daily","identifier":"hash:77"}]}`
	reset("jane", `{"allPolicies":true,"identifier":"secret-key","reason":"INC-4"}`)
	answers = `{"identifier":"acme","counters":[]}`
	reset("john", `{"policy":"cluster/all","identifier":"acme","reason":"INC-5"}`)

	var list eventsv1.EventList
	if err := h.kube.List(t.Context(), &list); err != nil {
		t.Fatal(err)
	}
	var got []string
	for i := range list.Items {
		e := &list.Items[i]
		got = append(got, fmt.Sprintf("%s %s %s %s %s: %s", e.Namespace, e.Regarding.Kind, e.Regarding.Name, e.Regarding.UID, e.Reason, e.Note))
	}
	slices.Sort(got)
	const on = ` on 1 of 2 replicas of Limiter edge/main: `
	want := []string{
		`cluster RateLimitPolicy all uid-twin Reset: User "john" reset the counters of identifier "acme"` + on + `INC-5`,
		`default ClusterRateLimitPolicy all uid-all Reset: User "jane" reset the counters of identifier "acme"` + on + `INC-4`,
		`shop RateLimitPolicy daily uid-daily Reset: User "jane" reset the counters of identifier "hash:77"` + on + `INC-1`,
		`shop RateLimitPolicy daily uid-daily Reset: User "jane" reset the counters of identifier "hash:77"` + on + `INC-4`,
		`shop RateLimitPolicy daily uid-daily Reset: User "john" reset the counters of identifier "hash:77"` + on + `INC-2`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	if text := h.log.String(); strings.Count(text, "counters reset") != 5 || strings.Contains(text, "secret-key") || !strings.Contains(text, "caller=john reason=INC-2") {
		t.Errorf("log: %s", text)
	}
}
