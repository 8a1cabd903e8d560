package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/weir-dev/weir/test/fixture"
	"github.com/weir-dev/weir/test/fixture/kubetest"
)

func TestAwaitAPIServer_TriesUntilTheAPIServerAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		attempts, longest, last := 0, time.Duration(0), began
		err := awaitAPIServer(t.Context(), "0", func(context.Context) error {
			attempts++
			longest, last = max(longest, time.Since(last)), time.Now()
			if time.Since(began) < 10*time.Minute {
				return &url.Error{Op: "Get", URL: "https://10.96.0.1", Err: &net.OpError{Op: "dial", Err: errors.New("connection refused")}}
			}
			return nil
		})
		if err != nil || attempts < 100 || longest > 7*time.Second {
			t.Errorf("%v after %d attempts, the longest pause was %v", err, attempts, longest)
		}
	})
}

func TestAwaitAPIServer_EndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		err := awaitAPIServer(ctx, "0", func(ctx context.Context) error { // an API server that does not answer
			<-ctx.Done()
			return ctx.Err()
		})
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v", err)
		}
	})
}

func TestIsUnavailable_DistinguishesWhatWaitingSolves(t *testing.T) {
	pods := schema.GroupResource{Resource: "pods"}
	for name, test := range map[string]struct {
		err  error
		want bool
	}{
		"connection refused":            {&url.Error{Err: &net.OpError{Op: "dial", Err: errors.New("connection refused")}}, true},
		"no such host":                  {&url.Error{Err: &net.DNSError{Err: "no such host"}}, true},
		"closed connection":             {&url.Error{Err: io.EOF}, true},
		"a slow API server":             {fmt.Errorf("read: %w", context.DeadlineExceeded), true},
		"503":                           {apierrors.NewServiceUnavailable("starting"), true},
		"500, etcd is unavailable":      {apierrors.NewInternalError(errors.New("etcdserver: no leader")), true},
		"429":                           {apierrors.NewTooManyRequests("later", 1), true},
		"504":                           {apierrors.NewTimeoutError("etcd", 1), true},
		"wrapped":                       {fmt.Errorf("read the pod: %w", apierrors.NewServiceUnavailable("starting")), true},
		"no permission":                 {apierrors.NewForbidden(pods, "x", errors.New("RBAC")), false},
		"no such pod":                   {apierrors.NewNotFound(pods, "x"), false},
		"a token that is not accepted":  {apierrors.NewUnauthorized("expired"), false},
		"a container that is not there": {errors.New("pod has no container operator"), false},
	} {
		if got := isUnavailable(test.err); got != test.want {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
}

// The API server is unavailable when the operator starts, for longer than the kubelet tolerates a process that does not answer its probe.
func TestRunOperator_WaitsForTheAPIServer(t *testing.T) {
	root, err := fixture.ModuleRoot()
	if err != nil {
		t.Fatal(err)
	}
	kube, err := kubetest.StartKube(t.Context(), kubetest.KubeOptions{CRDs: []string{filepath.Join(root, "config", "crd", "bases")}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := kube.Stop(); err != nil {
			t.Error(err)
		}
	}()
	if _, err := kube.Kubectl(t.Context(), "create", "namespace", "weir-system"); err != nil {
		t.Fatal(err)
	}
	api, err := url.Parse(kube.Config().Host)
	if err != nil {
		t.Fatal(err)
	}
	front, err := fixture.FreeAddr(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.LoadFromFile(kube.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	for _, cluster := range config.Clusters {
		cluster.Server = "https://" + front
	}
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, kubeconfig); err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBECONFIG", kubeconfig)
	health, err := fixture.FreeAddr(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- runOperator(ctx, operatorFlags{
			namespace: "weir-system", prefix: "weir:", resync: time.Second, health: health, image: "weir:test",
			webhook: webhookFlags{certificates: "None"}, metrics: operatorMetricsFlags{address: "0"}, admin: operatorAdminFlags{address: "0"},
		})
	}()
	status := func(path string) int {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+health+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return 0
		}
		_ = response.Body.Close()
		return response.StatusCode
	}
	fixture.Await(t, "the process is alive and not ready", func() bool {
		return status("/healthz") == http.StatusOK && status("/readyz") == http.StatusServiceUnavailable
	})
	select {
	case err := <-ended:
		t.Fatalf("the operator has exited: %v", err)
	default:
	}
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", front)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	go forward(listener, strings.TrimSuffix(api.Host, "/"))
	fixture.Await(t, "the operator is ready", func() bool { return status("/readyz") == http.StatusOK })
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// forward connects all clients of the listener with the address.
func forward(listener net.Listener, address string) {
	for {
		client, err := listener.Accept()
		if err != nil {
			return
		}
		server, err := new(net.Dialer).DialContext(context.Background(), "tcp", address)
		if err != nil {
			_ = client.Close()
			continue
		}
		for _, way := range [][2]net.Conn{{client, server}, {server, client}} {
			go func() {
				_, _ = io.Copy(way[0], way[1])
				_ = way[0].Close()
			}()
		}
	}
}
