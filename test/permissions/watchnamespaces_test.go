package permissions

import (
	"context"
	"crypto/tls"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/weir-dev/weir/test/fixture"
	"github.com/weir-dev/weir/test/fixture/kubetest"
	"github.com/weir-dev/weir/test/manifests/tool"
)

// TestOperator_WorksInItsWatchedNamespacesOnly runs an operator with only the permissions that the chart grants it with watchNamespaces.
func TestOperator_WorksInItsWatchedNamespacesOnly(t *testing.T) {
	kube, redis := kubetest.Kube(t), fixture.Redis(t)
	watched, other := kubetest.Namespace(t, kube), kubetest.Namespace(t, kube)
	text, err := tool.Output(t, "helm", "template", "weir", tool.Root(t, "charts", "weir"), "--namespace", watched,
		"--set=watchNamespaces={"+watched+"},limiterSecrets={redis-login},crds.install=false,webhook.certificates=None")
	if err != nil {
		t.Fatal(err)
	}
	kubetest.Apply(t, kube, text)
	t.Cleanup(func() { // the cluster roles
		if _, err := kube.Kubectl(context.WithoutCancel(t.Context()), "delete", "-f", tool.File(t, "chart.yaml", text), "--wait=false"); err != nil {
			t.Error(err)
		}
	})
	installGatewayAPI(t, kube)
	config := kube.Config()
	config.Impersonate.UserName = "system:serviceaccount:" + watched + ":weir-operator"
	config.Impersonate.Groups = []string{"system:serviceaccounts", "system:serviceaccounts:" + watched, "system:authenticated"}
	kubeconfig, err := kube.WriteKubeconfig("operator-"+watched, config)
	if err != nil {
		t.Fatal(err)
	}
	health, err := fixture.FreeAddr(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	metrics, err := fixture.FreeAddr(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	process := fixture.Weir(t, buildOperator(t), "--kubeconfig", kubeconfig, "--namespace", watched, "--watch-namespaces", watched,
		"--leader-elect", "--network-policies", "--limiter-image=weir:test", "--metrics-secure", "--metrics-bind-address", metrics,
		"--health-probe-bind-address", health)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := fixture.WaitHTTP(ctx, "http://"+health+"/readyz", http.StatusOK); err != nil {
		t.Fatalf("%v\n%s", err, process.Log())
	}

	for _, namespace := range []string{watched, other} {
		kubetest.Apply(t, kube, "apiVersion: weir.dev/v1alpha1\nkind: Limiter\nmetadata: {name: edge, namespace: "+namespace+"}\n"+
			"spec: {redis: {addresses: [\""+strings.TrimPrefix(redis.URL(), "redis://")+"\"]}, autoscaling: {maxReplicas: 3}}\n")
	}
	kubetest.Apply(t, kube, "apiVersion: weir.dev/v1alpha1\nkind: RateLimitPolicy\nmetadata: {name: daily, namespace: "+other+"}\nspec: {axis: IP, limit: 1, window: 1d}\n")
	kubectl := func(args ...string) string {
		t.Helper()
		out, err := kube.Kubectl(t.Context(), args...)
		if err != nil {
			t.Errorf("kubectl %q: %v\n%s", args, err, process.Log())
		}
		return strings.TrimSpace(out)
	}
	kubectl("wait", "-n", watched, "--for=condition=Programmed", "limiter/edge", "--timeout="+patience.String())
	kubectl("wait", "-n", watched, "--for=create", "configmap/weir-rules-edge", "--timeout="+patience.String())
	kubectl("get", "-n", watched, "deployment,service,serviceaccount,configmap,poddisruptionbudget,networkpolicy,horizontalpodautoscaler", "weir-limiter-edge")
	// Policies are in all namespaces.
	kubectl("wait", "-n", other, "--for=condition=Accepted", "ratelimitpolicy/daily", "--timeout="+patience.String())
	kubetest.Apply(t, kube, "apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: {name: checkout, namespace: "+other+"}\n"+
		"spec: {hostnames: [shop.example], rules: [{name: pay, matches: [{path: {value: /pay}}]}]}\n")
	kubetest.Apply(t, kube, "apiVersion: weir.dev/v1alpha1\nkind: RateLimitPolicy\nmetadata: {name: checkout, namespace: "+other+"}\n"+
		"spec: {axis: IP, limit: 1, window: 1d, targetRefs: [{group: gateway.networking.k8s.io, kind: HTTPRoute, name: checkout}]}\n")
	kubectl("wait", "-n", other, "--for=condition=Accepted", "ratelimitpolicy/checkout", "--timeout="+patience.String())
	if got := kubectl("get", "-n", other, "limiter", "edge", "-o", "jsonpath={.status.observedGeneration}"); got != "-1" {
		t.Errorf("the operator processed generation %s of a Limiter in another namespace", got)
	}
	if got := kubectl("get", "-n", other, "deployments,serviceaccounts,configmaps", "-l", "app.kubernetes.io/managed-by=weir-operator", "-o", "name"); got != "" {
		t.Errorf("the operator created %s in another namespace", got)
	}
	if strings.Contains(process.Log(), "forbidden") {
		t.Errorf("the operator lacks permissions:\n%s", process.Log())
	}

	checkMetrics(t, kube, metrics, watched)
	for _, c := range []struct {
		namespace, args string
		forbidden       bool
	}{
		{other, "create deployment x --image=x", true},
		{other, "create serviceaccount x", true},
		{other, "create configmap x", true},
		{other, "get secret redis-login", true},
		{watched, "get secret redis-login", false},
		{watched, "get secret another", true},
		{watched, "create deployment x --image=x", false},
		{"kube-system", "create deployment x --image=x", true},
	} {
		_, err := kube.Kubectl(t.Context(), append(strings.Fields(c.args), "-n", c.namespace, "--as="+config.Impersonate.UserName)...)
		if got := err != nil && strings.Contains(strings.ToLower(err.Error()), "forbidden"); got != c.forbidden {
			t.Errorf("%s in %s: %v, want Forbidden: %v", c.args, c.namespace, err, c.forbidden)
		}
	}
}

// checkMetrics reads the metrics of an operator without a token, with one that has no permission, and with one that has it.
func checkMetrics(t *testing.T, kube *kubetest.KubeProcess, address, namespace string) {
	t.Helper()
	token := func(account string) string {
		t.Helper()
		if _, err := kube.Kubectl(t.Context(), "create", "serviceaccount", account, "-n", namespace); err != nil {
			t.Fatal(err)
		}
		out, err := kube.Kubectl(t.Context(), "create", "token", account, "-n", namespace)
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(out)
	}
	stranger, prometheus := token("stranger"), token("prometheus")
	if _, err := kube.Kubectl(t.Context(), "create", "clusterrolebinding", namespace, "--clusterrole=weir-metrics-viewer",
		"--serviceaccount="+namespace+":prometheus"); err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Timeout: patience, Transport: &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, // the certificate is self-signed
	}}
	// The filter of controller-runtime reports a token that the API server rejects as an error of its own.
	for _, c := range []struct {
		token  string
		status int
	}{{"", http.StatusUnauthorized}, {"invalid", http.StatusInternalServerError}, {stranger, http.StatusForbidden}, {prometheus, http.StatusOK}} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+address+"/metrics", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		if c.token != "" {
			request.Header.Set("Authorization", "Bearer "+c.token)
		}
		response, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(response.Body)
		_ = response.Body.Close()
		if err != nil || response.StatusCode != c.status || strings.Contains(string(body), "weir_") != (c.status == http.StatusOK) {
			t.Errorf("with token %.9q: %s, %v, want %d", c.token, response.Status, err, c.status)
		}
	}
	if response, err := http.Get("http://" + address + "/metrics"); err == nil {
		_ = response.Body.Close()
		if response.StatusCode == http.StatusOK {
			t.Error("the metrics are served without TLS")
		}
	}
}
