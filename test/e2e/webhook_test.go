package e2e_test

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"

	"github.com/weir-dev/weir/test/fixture"
	"github.com/weir-dev/weir/test/fixture/kubetest"
)

// review is an admission review for the creation of a RateLimitPolicy in the namespace shop.
const review = `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"1","operation":"CREATE",
"kind":{"group":"weir.dev","version":"v1alpha1","kind":"RateLimitPolicy"},
"resource":{"group":"weir.dev","version":"v1alpha1","resource":"ratelimitpolicies"},"name":"a","namespace":"shop",
"object":{"apiVersion":"weir.dev/v1alpha1","kind":"RateLimitPolicy","metadata":{"name":"a","namespace":"shop"},"spec":{"axis":"Tenant",
"limit":5,"window":"1m","algorithm":"%s","match":{"http":{"paths":[{"type":"RegularExpression","value":%q}]}}}}}}`

// TestWebhook_ValidatesPolicies runs the operator with the webhook in a namespace of its own and calls the webhook as the API server
// does: by the name of its Service, trusting only the CA bundle that the operator has written into the configuration. The API server
// of the test cannot call it, because it cannot reach a Service.
func TestWebhook_ValidatesPolicies(t *testing.T) {
	kube := kubetest.Kube(t)
	namespace := kubetest.Namespace(t, kube)
	kubectl := func(args ...string) string {
		t.Helper()
		out, err := kube.Kubectl(t.Context(), args...)
		if err != nil {
			t.Fatalf("kubectl %s: %v", strings.Join(args, " "), err)
		}
		return strings.TrimSpace(out)
	}
	root, err := fixture.ModuleRoot()
	if err != nil {
		t.Fatal(err)
	}
	kubectl("apply", "-f", filepath.Join(root, "config", "webhook", "configuration.yaml"))
	defer kubectl("delete", "validatingwebhookconfiguration", "weir-policies")
	var addrs [2]string
	for i := range addrs {
		if addrs[i], err = fixture.FreeAddr(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	fixture.Weir(t, buildOperator(t), "--kubeconfig", kube.Kubeconfig(), "--namespace", namespace,
		"--health-probe-bind-address", addrs[0], "--metrics-bind-address", "0",
		"--webhook-certificates", "Managed", "--webhook-bind-address", addrs[1])
	if err := fixture.WaitHTTP(t.Context(), "http://"+addrs[0]+"/readyz", http.StatusOK); err != nil {
		t.Fatal(err)
	}
	bundle, err := base64.StdEncoding.DecodeString(
		kubectl("get", "validatingwebhookconfiguration", "weir-policies", "-o", "jsonpath={.webhooks[0].clientConfig.caBundle}"))
	if err != nil {
		t.Fatal(err)
	}
	trusted := x509.NewCertPool()
	if !trusted.AppendCertsFromPEM(bundle) {
		t.Fatalf("no CA in the bundle %q", bundle)
	}
	web := &http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: trusted, ServerName: "weir-webhook." + namespace + ".svc"},
	}}
	defer web.CloseIdleConnections()
	validate := func(algorithm, path string) *admissionv1.AdmissionResponse {
		t.Helper()
		response, err := web.Post("https://"+addrs[1]+"/validate/ratelimitpolicies", "application/json",
			strings.NewReader(fmt.Sprintf(review, algorithm, path)))
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		var answer admissionv1.AdmissionReview
		if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
			t.Fatal(err)
		}
		return answer.Response
	}
	if r := validate("SlidingWindowLog", "/v1/[0-9]+"); !r.Allowed || len(r.Warnings) != 0 {
		t.Errorf("a valid policy: %+v", r)
	}
	if r := validate("FixedWindow", "/v1/[0-9]+"); !r.Allowed || len(r.Warnings) != 1 || !strings.Contains(r.Warnings[0], "FixedWindow can admit up to 10") {
		t.Errorf("a policy with a warning: %+v", r)
	}
	if r := validate("SlidingWindowLog", "/v1/(?=x)"); r.Allowed || !strings.Contains(r.Result.Message, "spec.match.http.paths[0].value") {
		t.Errorf("an invalid policy: %+v", r)
	}
}
