package permissions

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/cert"

	"github.com/weir-dev/weir/limiter/admin"
	"github.com/weir-dev/weir/limiter/topk"
	"github.com/weir-dev/weir/test/fixture"
	"github.com/weir-dev/weir/test/fixture/kubetest"
	"github.com/weir-dev/weir/test/manifests/tool"
)

// administered is an operator with the permissions of the chart, and two limiters whose pods exist in the API server.
type administered struct {
	*testing.T
	kube             *kubetest.KubeProcess
	weir, plugin, ns string
	operator         *fixture.WeirProcess
	address          string // of the admin endpoint of the operator
	ca               string // file
	replicas         []administeredReplica
}

type administeredReplica struct {
	*fixture.WeirProcess
	pod, url string
}

func newAdministered(t *testing.T) *administered {
	t.Helper()
	w := &administered{T: t, kube: kubetest.Kube(t)}
	redis := fixture.Redis(t)
	w.ns = kubetest.Namespace(t, w.kube)
	var err error
	w.weir, err = fixture.BuildWeir(t.Context(), t.TempDir())
	w.must(err)
	w.plugin, err = fixture.BuildPlugin(t.Context(), t.TempDir())
	w.must(err)
	w.startOperator()
	kubetest.Apply(t, w.kube, "apiVersion: weir.dev/v1alpha1\nkind: Limiter\nmetadata: {name: edge, namespace: "+w.ns+"}\n"+
		"spec: {redis: {addresses: [\""+redis.Addr()+"\"]}}\n")
	t.Cleanup(func() { // while the operator runs: operators of other tests would wait for the Redis of this Limiter
		if _, err := w.kube.Kubectl(context.WithoutCancel(t.Context()), "delete", "limiter,ratelimitpolicy", "--all", "-n", w.ns, "--timeout=30s"); err != nil {
			t.Error(err)
		}
	})
	kubetest.Apply(t, w.kube, "apiVersion: weir.dev/v1alpha1\nkind: RateLimitPolicy\nmetadata: {name: daily, namespace: "+w.ns+"}\n"+
		"spec: {axis: Tenant, limit: 2, window: 24h, algorithm: SlidingWindowLog}\n")
	w.kubectl("wait", "-n", w.ns, "--for=create", "deployment/weir-limiter-edge", "--timeout="+patience.String())
	for i := range 2 {
		w.startReplica(fmt.Sprintf("weir-limiter-edge-%d", i))
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for _, r := range w.replicas {
		w.must(fixture.WaitHTTP(ctx, r.url+"/readyz", http.StatusOK))
	}
	return w
}

func (w *administered) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *administered) kubectl(args ...string) string {
	w.Helper()
	out, err := w.kube.Kubectl(w.Context(), args...)
	w.must(err)
	return strings.TrimSpace(out)
}

func (w *administered) free() string {
	w.Helper()
	address, err := fixture.FreeAddr(w.Context())
	w.must(err)
	return address
}

// startOperator installs the chart and runs the operator as its ServiceAccount.
func (w *administered) startOperator() {
	w.Helper()
	text, err := tool.Output(w.T, "helm", "template", "weir", tool.Root(w.T, "charts", "weir"), "--namespace", w.ns,
		"--set=watchNamespaces={"+w.ns+"},crds.install=false,webhook.certificates=None")
	w.must(err)
	kubetest.Apply(w.T, w.kube, text)
	w.Cleanup(func() {
		if _, err := w.kube.Kubectl(context.WithoutCancel(w.Context()), "delete", "-f", tool.File(w.T, "chart.yaml", text), "--wait=false"); err != nil {
			w.Error(err)
		}
	})
	config := w.kube.Config()
	config.Impersonate.UserName = "system:serviceaccount:" + w.ns + ":weir-operator"
	config.Impersonate.Groups = []string{"system:serviceaccounts", "system:serviceaccounts:" + w.ns, "system:authenticated"}
	kubeconfig, err := w.kube.WriteKubeconfig("operator-"+w.ns, config)
	w.must(err)
	certificate, key, err := cert.GenerateSelfSignedCertKey("operator", []net.IP{net.IPv4(127, 0, 0, 1)}, nil)
	w.must(err)
	dir := w.TempDir()
	w.ca = filepath.Join(dir, "tls.crt")
	w.must(os.WriteFile(w.ca, certificate, 0o600))
	w.must(os.WriteFile(filepath.Join(dir, "tls.key"), key, 0o600))
	health := w.free()
	w.address = w.free()
	w.operator = fixture.Weir(w.T, buildOperator(w.T), "--kubeconfig", kubeconfig, "--namespace", w.ns, "--watch-namespaces", w.ns, "--leader-elect",
		"--limiter-image=weir:test", "--metrics-bind-address=0", "--health-probe-bind-address", health,
		"--admin-bind-address", w.address, "--admin-cert", w.ca, "--admin-key", filepath.Join(dir, "tls.key"))
	ctx, cancel := context.WithTimeout(w.Context(), patience)
	defer cancel()
	if err := fixture.WaitHTTP(ctx, "http://"+health+"/readyz", http.StatusOK); err != nil {
		w.Fatalf("%v\n%s", err, w.operator.Log())
	}
}

// startReplica runs the container of the Deployment as a process, and creates its pod.
func (w *administered) startReplica(name string) {
	w.Helper()
	var d struct {
		Spec struct {
			Template struct {
				Spec struct {
					Containers []struct{ Args []string }
					Volumes    []struct {
						Name   string
						Secret struct{ SecretName string }
					}
				}
			}
		}
	}
	w.must(json.Unmarshal([]byte(w.kubectl("get", "deployment", "-n", w.ns, "weir-limiter-edge", "-o", "json")), &d))
	key := filepath.Join(w.TempDir(), "key")
	for _, v := range d.Spec.Template.Spec.Volumes {
		if v.Name == "hash-key" {
			text, err := base64.StdEncoding.DecodeString(w.kubectl("get", "secret", "-n", w.ns, v.Secret.SecretName, "-o", "jsonpath={.data.key}"))
			w.must(err)
			w.must(os.WriteFile(key, text, 0o600))
		}
	}
	admin, listen, ops := w.free(), w.free(), w.free()
	var args []string
	for _, a := range d.Spec.Template.Spec.Containers[0].Args {
		if !strings.HasPrefix(a, "--memory=") && !strings.HasPrefix(a, "--snapshot=") { // variables and files of a pod
			args = append(args, a)
		}
	}
	process := fixture.Weir(w.T, w.weir, append(args, "--replica", name, "--listen", listen, "--ops-listen", ops, "--grpc-listen=", "--drain=0s",
		"--hash-key", key, "--admin-listen", admin)...)
	_, port, err := net.SplitHostPort(admin)
	w.must(err)
	kubetest.Apply(w.T, w.kube, fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata:
  name: %s
  namespace: %s
  labels: {app.kubernetes.io/name: weir, app.kubernetes.io/component: limiter, app.kubernetes.io/instance: edge}
spec:
  serviceAccountName: weir-limiter-edge
  containers: [{name: limiter, image: weir:test, ports: [{name: admin, containerPort: %s}]}]
`, name, w.ns, port))
	w.kubectl("patch", "pod", "-n", w.ns, name, "--subresource=status", "--type=merge",
		"-p", `{"status":{"phase":"Running","podIP":"127.0.0.1","podIPs":[{"ip":"127.0.0.1"}]}}`)
	w.replicas = append(w.replicas, administeredReplica{process, name, "http://" + ops})
	w.replicas[len(w.replicas)-1].pod = name + " " + listen
}

// user returns the kubeconfig of a user with the roles, bound in the namespace.
func (w *administered) user(name string, roles ...string) (kubeconfig string) {
	w.Helper()
	config, err := w.kube.UserConfig(name)
	w.must(err)
	return w.kubeconfig(name, config, "--user="+name, roles...)
}

// account is user for a ServiceAccount with a token.
func (w *administered) account(name string, roles ...string) (kubeconfig string) {
	w.Helper()
	w.kubectl("create", "serviceaccount", name, "-n", w.ns)
	config := rest.AnonymousClientConfig(w.kube.Config())
	config.BearerToken = w.kubectl("create", "token", name, "-n", w.ns)
	return w.kubeconfig(name, config, "--serviceaccount="+w.ns+":"+name, roles...)
}

func (w *administered) kubeconfig(name string, config *rest.Config, subject string, roles ...string) (path string) {
	w.Helper()
	for _, role := range roles {
		w.kubectl("create", "rolebinding", name+"-"+role, "-n", w.ns, "--clusterrole="+role, subject)
	}
	path, err := w.kube.WriteKubeconfig(w.ns+"-"+name, config)
	w.must(err)
	return path
}

// flags returns the flags that select the Limiter and the operator.
func (w *administered) flags(kubeconfig string) []string {
	return []string{"--kubeconfig", kubeconfig, "--limiter", w.ns + "/edge", "--operator", "https://" + w.address, "--operator-ca", w.ca}
}

// run runs a command of kubectl weir as a user, and returns what it prints to standard output and to standard error.
func (w *administered) run(kubeconfig string, args ...string) (stdout, stderr string, err error) {
	w.Helper()
	return w.runWithout("", kubeconfig, args...)
}

// runWithout is run without a flag that the command does not have.
func (w *administered) runWithout(flag, kubeconfig string, args ...string) (stdout, stderr string, err error) {
	w.Helper()
	flags := w.flags(kubeconfig)
	if at := slices.Index(flags, flag); at >= 0 {
		flags = slices.Delete(flags, at, at+2)
	}
	cmd := exec.CommandContext(w.Context(), w.plugin, append(args, flags...)...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err = cmd.Run()
	return out.String(), errs.String(), err
}

// expect fails unless the command succeeds or fails as wanted, with the texts in what it prints.
func (w *administered) expect(kubeconfig string, succeeds bool, want []string, args ...string) (stdout string) {
	w.Helper()
	stdout, stderr, err := w.run(kubeconfig, args...)
	if (err == nil) != succeeds {
		w.Errorf("weir %q: %v\n%s%s", args, err, stdout, stderr)
	}
	for _, text := range want {
		if !strings.Contains(stdout+stderr, text) {
			w.Errorf("weir %q does not print %q:\n%s%s", args, text, stdout, stderr)
		}
	}
	return stdout
}

// request asks a replica to decide a request of the tenant acme.
func (w *administered) request(replica int) (status int) {
	w.Helper()
	_, listen, _ := strings.Cut(w.replicas[replica].pod, " ")
	body := fmt.Sprintf(`{"domain":%q,"headers":{"x-tenant-id":"acme"}}`, w.ns)
	response, err := http.Post("http://"+listen+"/v1/check", "application/json", strings.NewReader(body))
	w.must(err)
	_ = response.Body.Close()
	return response.StatusCode
}

func (w *administered) expectRequest(replica, want int) {
	w.Helper()
	if got := w.request(replica); got != want {
		w.Errorf("replica %d answers %d, want %d", replica, got, want)
	}
}

// expectMergedTop expects that each replica has allowed and denied one request of the tenant acme.
func (w *administered) expectMergedTop(kubeconfig string) {
	w.Helper()
	var top admin.Top
	w.must(json.Unmarshal([]byte(w.expect(kubeconfig, true, nil, "top", "-o", "json")), &top))
	want := []topk.Entry{{Policy: w.ns + "/daily", Identifier: "acme", Requests: 2}}
	if !slices.Equal(top.Allowed.Identifiers, want) || !slices.Equal(top.Denied.Identifiers, want) {
		w.Errorf("top is %+v, want %+v allowed and denied", top, want)
	}
}

func TestAdminAccess_UsersGetWhatTheirRolesAllow(t *testing.T) {
	w := newAdministered(t)
	policy := w.ns + "/daily"
	fixture.Await(t, "the policy is enforced", func() bool {
		stdout, err := w.kube.Kubectl(t.Context(), "wait", "-n", w.ns, "--for=condition=Programmed", "ratelimitpolicy/daily", "--timeout=10s")
		return err == nil && stdout != ""
	})
	w.expectRequest(0, 200)
	w.expectRequest(1, 200)
	w.expectRequest(0, 429)
	w.expectRequest(1, 429) // both replicas know the denial

	stranger, observer := w.user("stranger"), w.user("olga@example.com", "weir-observer")
	responder := w.account("oncall", "weir-responder")
	get, reset := []string{"counters", "get", "acme"}, []string{"counters", "reset", "acme", "--policy", policy, "--reason", "INC-1234: import ran twice"}

	w.expect(stranger, false, []string{`user "stranger" cannot get limiters/counters`, "bind the ClusterRole weir-observer"}, get...)
	w.expect(observer, true, []string{policy, "acme", "2 per 24h"}, get...)
	w.expect(observer, true, []string{policy}, "rules")
	if stdout := w.expect(observer, true, nil, "rules", "diff"); stdout != "" {
		w.Errorf("replicas that enforce the published rules differ from them:\n%s", stdout)
	}
	w.expect(observer, false, []string{"is not in Redis"}, "rules", "diff", "--revision", "sha256:none")
	w.expect(stranger, false, []string{`user "stranger" cannot get limiters/rules`}, "rules", "diff")
	w.expectMergedTop(observer)
	w.expect(stranger, false, []string{`user "stranger" cannot get limiters/denials`, "bind the ClusterRole weir-observer"}, "logs")
	logs := fixture.Weir(t, w.plugin, append([]string{"logs", "--policy", policy}, w.flags(observer)...)...)
	for _, r := range w.replicas {
		pod, _, _ := strings.Cut(r.pod, " ")
		fixture.Await(t, "logs follows "+pod, func() bool { return strings.Contains(logs.Log(), "following replica "+pod+"\n") })
	}
	for i := range w.replicas {
		w.expectRequest(i, 429)
		fixture.Await(t, "the denial is printed", func() bool {
			return regexp.MustCompile(policy + `  acme  denied, .*  weir-limiter-edge-` + strconv.Itoa(i) + "\n").MatchString(logs.Log())
		})
	}
	w.expect(observer, false, []string{policy, "Denies"}, "explain", "--domain", w.ns, "--header", "x-tenant-id: acme") // status 3: denied
	w.expect(observer, false, []string{`user "olga@example.com" cannot create limiters/resets`, "bind the ClusterRole weir-responder"}, reset...)
	w.expectRequest(0, 429)
	w.expect(responder, false, []string{"policy is required"}, "counters", "reset", "acme", "--reason", "x")
	w.expect(observer, false, []string{"is not enforced by this limiter"}, "counters", "get", "acme", "--policy", w.ns+"/none")

	w.expect(responder, true, []string{"1 counter with used units would be reset"}, append(reset, "--dry-run")...)
	w.expectRequest(0, 429)
	w.expect(responder, true, []string{"1 counter with used units reset"}, reset...)
	w.expectRequest(1, 200)
	w.expectRequest(0, 200)
	w.expectRequest(0, 429)
	note := w.kubectl("get", "events.events.k8s.io", "-n", w.ns, "--field-selector=reason=Reset", "-o",
		`jsonpath={range .items[*]}{.regarding.kind} {.regarding.name} {.note}{"\n"}{end}`)
	want := fmt.Sprintf(`RateLimitPolicy daily User "system:serviceaccount:%s:oncall" reset the counters of identifier "acme" on 2 of 2 replicas of Limiter %s/edge: INC-1234: import ran twice`, w.ns, w.ns)
	if note != want {
		t.Errorf("events %q, want %q", note, want)
	}
	for i, r := range w.replicas {
		if !strings.Contains(r.Log(), "system:serviceaccount:"+w.ns+":oncall") {
			t.Errorf("the log of replica %d does not name the user", i)
		}
	}

	w.expectBypass(stranger, observer, responder)

	w.must(w.replicas[1].Stop())
	fixture.Await(t, "logs names the replica that ended", func() bool {
		return strings.Contains(logs.Log(), "replica weir-limiter-edge-1 is not followed: ")
	})
	w.must(logs.Stop())
	w.expect(observer, true, []string{"replica weir-limiter-edge-1 does not answer: ", "2 per 24h"}, get...)
	w.kubectl("delete", "pod", "-n", w.ns, "weir-limiter-edge-1", "--grace-period=0", "--force")
	if out := w.expect(observer, true, nil, get...); strings.Contains(out, "weir-limiter-edge-1") {
		t.Errorf("a deleted pod is reported: %s", out)
	}
}

func TestAdminAccess_RejectsRequestsWithoutIdentity(t *testing.T) {
	w := newAdministered(t)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} // the test sends no secret
	send := func(header, value string) int {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+w.address+"/admin/v1/limiters/"+w.ns+"/edge/rules", http.NoBody)
		w.must(err)
		if header != "" {
			request.Header.Set(header, value)
		}
		response, err := client.Do(request)
		w.must(err)
		_ = response.Body.Close()
		return response.StatusCode
	}
	for _, c := range []struct {
		header, value string
		want          int
	}{
		{"", "", 401},
		{"Authorization", "Bearer invalid", 401},
		{"X-Remote-User", "system:admin", 401},
		{"Weir-Caller", "system:admin", 401},
		{"Impersonate-User", "system:admin", 400},
	} {
		if got := send(c.header, c.value); got != c.want {
			t.Errorf("%s: %s: status %d, want %d", c.header, c.value, got, c.want)
		}
	}
	config, err := w.kube.UserConfig("boss", "system:masters")
	w.must(err)
	config.Impersonate.UserName = "jane"
	path, err := w.kube.WriteKubeconfig(w.ns+"-impersonating", config)
	w.must(err)
	w.expect(path, false, []string{"the kubeconfig impersonates a user"}, "rules")
}
