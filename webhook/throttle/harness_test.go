package throttle

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	admissionv1 "k8s.io/api/admission/v1"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/engine"
	"github.com/weir-dev/weir/limiter/exempt"
	"github.com/weir-dev/weir/limiter/memstore"
	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/limiter/rules/matching"
	"github.com/weir-dev/weir/limiter/store"
	"github.com/weir-dev/weir/test/fixture/kubetest"
)

func TestMain(m *testing.M) { kubetest.Main(m) }

const (
	hour = time.Hour
	// patience bounds every wait in the tests.
	patience = 20 * time.Second
)

// noon is the fixed time of the tests.
var noon = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

func atNoon() *memstore.Store { return memstore.New(func() time.Time { return noon }) }

// limit returns a rule for writes to configmaps, counted by namespace, in all namespaces.
func limit(name string, units int64, window time.Duration, changes ...func(*rules.Rule)) rules.Rule {
	r := rules.Rule{
		Policy: "_cluster/" + name, AllDomains: true, Axis: "Namespace", Identifier: rules.Identifier{From: rules.FromKubernetesNamespace},
		Match: rules.Match{Kubernetes: &rules.KubernetesMatch{Resources: []rules.KubernetesResources{{
			APIGroups: []string{""}, Resources: []string{"configmaps"}, Operations: []string{"CREATE", "UPDATE", "DELETE"},
		}}}},
		Algorithm: limiter.SlidingWindowLog, Units: units, WindowSeconds: int64(window / time.Second),
	}
	for _, change := range changes {
		change(&r)
	}
	return r
}

func inShadow(r *rules.Rule) { r.Shadow = true }

func byUser(r *rules.Rule) {
	r.Axis, r.Identifier = "User", rules.Identifier{From: rules.FromKubernetesUser}
}

func newEngine(t testing.TB, counters limiter.Store, list ...rules.Rule) *engine.Engine {
	t.Helper()
	e := engine.New(store.New(counters, store.Layers{}, prometheus.NewRegistry()), engine.SourceMemory, engine.NewMetrics(prometheus.NewRegistry()))
	index, err := matching.NewIndex(rules.Set{Rules: list, HashKey: testHashKey().ID()}, "sha256:1", "weir:", matching.WithHashKey(testHashKey()))
	if err != nil {
		t.Fatal(err)
	}
	e.Swap(index)
	return e
}

// defaultOptions are the options of a Limiter with the default kubernetesThrottle.
func defaultOptions() Options {
	return Options{
		Exempt:        exempt.With("weir-system", exempt.Lists{}),
		MaxRetryAfter: 5 * time.Second,
		WarnPercent:   80,
	}
}

func newTestSettings(t testing.TB, s Options) *Settings {
	t.Helper()
	settings, err := NewSettings(s)
	if err != nil {
		t.Fatal(err)
	}
	return settings
}

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }

func newTestHandler(t testing.TB, e Engine) http.Handler {
	t.Helper()
	return NewHandler(e, newTestSettings(t, defaultOptions()), Telemetry{})
}

// reviewBody returns a review that a kube-apiserver has sent, with changes. TestAPIServer_SendsTheRecordedReviews writes the files in
// testdata.
func reviewBody(t testing.TB, name string, changes ...func(*admissionv1.AdmissionRequest)) []byte {
	t.Helper()
	body, err := os.ReadFile(filepath.Join("testdata", name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	if len(changes) == 0 {
		return body
	}
	var review admissionv1.AdmissionReview
	if err := json.Unmarshal(body, &review); err != nil {
		t.Fatal(err)
	}
	for _, change := range changes {
		change(review.Request)
	}
	if body, err = json.Marshal(review); err != nil {
		t.Fatal(err)
	}
	return body
}

func fromUser(user string, groups ...string) func(*admissionv1.AdmissionRequest) {
	return func(in *admissionv1.AdmissionRequest) { in.UserInfo.Username, in.UserInfo.Groups = user, groups }
}

func inNamespace(name string) func(*admissionv1.AdmissionRequest) {
	return func(in *admissionv1.AdmissionRequest) { in.Namespace = name }
}

func dryRun(in *admissionv1.AdmissionRequest) {
	yes := true
	in.DryRun = &yes
}

func post(h http.Handler, body []byte) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, Path+"?timeout=2s", bytes.NewReader(body)))
	return w
}

// reviewResponse sends a review and requires an AdmissionReview as the response.
func reviewResponse(t testing.TB, h http.Handler, body []byte) *admissionv1.AdmissionResponse {
	t.Helper()
	w := post(h, body)
	if w.Code != http.StatusOK || w.Header().Get("Content-Type") != "application/json" {
		t.Errorf("%d %s", w.Code, w.Body)
		return &admissionv1.AdmissionResponse{}
	}
	return readReview(t, w.Body)
}

func readReview(t testing.TB, body io.Reader) *admissionv1.AdmissionResponse {
	t.Helper()
	var review admissionv1.AdmissionReview
	if err := json.NewDecoder(body).Decode(&review); err != nil {
		t.Error(err)
	}
	if review.APIVersion != "admission.k8s.io/v1" || review.Kind != "AdmissionReview" || review.Request != nil || review.Response == nil {
		t.Errorf("not a response for an API server: %+v", review)
		return &admissionv1.AdmissionResponse{}
	}
	return review.Response
}

// testHashKey returns the key with which the tests of this package hash secrets.
func testHashKey() *limiter.HashKey {
	key, err := limiter.NewHashKey([]byte("a key of at least thirty-two bytes"))
	if err != nil {
		panic(err)
	}
	return key
}
