package adminproxy

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/controllers/deployment"
	"github.com/weir-dev/weir/controllers/hashkey"
	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/mutualtls"
)

const (
	// replicaTimeout bounds the call of a replica. A page of counters takes up to a second.
	replicaTimeout = 5 * time.Second
	// maxAnswer is the size of the largest answer of a replica, in bytes: the rules of 10 000 policies take about 10 MB.
	maxAnswer = 64 << 20
	// CallerHeader is admin.CallerHeader. A test of cmd/weir compares them: this package does not import what enforces limits.
	CallerHeader = "Weir-Caller"
)

// caller calls limiters.
type caller struct{ hashKey *limiter.HashKey }

// call is a request to limiters.
type call struct {
	method, path, query string
	body                []byte
	user                string
}

// tlsConfig returns the TLS configuration for the replicas of a Limiter.
func (c *caller) tlsConfig(of *v1alpha1.Limiter) (*tls.Config, error) {
	server := mutualtls.LimiterKey(hashkey.Of(c.hashKey, of)).Public()
	return mutualtls.Client(mutualtls.OperatorKey(c.hashKey), server.(ed25519.PublicKey)) //nolint:forcetypeassert // never another type
}

// callAll calls all pods of a Limiter at the same time, and returns their answers in the order of the pods.
func (c *caller) callAll(ctx context.Context, of *v1alpha1.Limiter, pods []corev1.Pod, request *call) ([]Replica, error) {
	ctx, cancel := context.WithTimeout(ctx, replicaTimeout)
	defer cancel()
	config, err := c.tlsConfig(of)
	if err != nil {
		return nil, err
	}
	transport := &http.Transport{TLSClientConfig: config, DisableKeepAlives: true} // calls are rare, and addresses are reused by other pods
	replicas := make([]Replica, len(pods))
	var wg sync.WaitGroup
	for i := range pods {
		wg.Go(func() { replicas[i] = callPod(ctx, transport, &pods[i], request) })
	}
	wg.Wait()
	return replicas, nil
}

func callPod(ctx context.Context, transport http.RoundTripper, pod *corev1.Pod, request *call) Replica {
	replica := Replica{Pod: pod.Name}
	address, err := adminAddress(pod)
	if err == nil {
		replica.Status, replica.Body, err = request.send(ctx, transport, address)
	}
	if err != nil {
		replica.Error = describe(pod, err)
	}
	return replica
}

// adminAddress returns the address of the admin endpoint of a pod.
func adminAddress(pod *corev1.Pod) (string, error) {
	if pod.Status.PodIP == "" {
		return "", errors.New("it has no address yet")
	}
	for i := range pod.Spec.Containers {
		for _, port := range pod.Spec.Containers[i].Ports {
			if port.Name == deployment.AdminPortName {
				return net.JoinHostPort(pod.Status.PodIP, strconv.Itoa(int(port.ContainerPort))), nil
			}
		}
	}
	return "", errors.New("it has no admin endpoint, because an older version of the operator started it")
}

// describe adds the state of the pod to the error of a call.
func describe(pod *corev1.Pod, err error) string {
	state := ""
	switch {
	case pod.DeletionTimestamp != nil:
		state = "the pod is being deleted: "
	case pod.Status.Phase == corev1.PodPending:
		state = "the pod is starting: "
	}
	if errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("no answer within %v", replicaTimeout)
	}
	return state + err.Error()
}

func (c *call) send(ctx context.Context, transport http.RoundTripper, address string) (status int, body json.RawMessage, err error) {
	target := url.URL{Scheme: "https", Host: address, Path: c.path, RawQuery: c.query}
	request, err := http.NewRequestWithContext(ctx, c.method, target.String(), bytes.NewReader(c.body))
	if err != nil {
		return 0, nil, err
	}
	request.Header.Set(CallerHeader, url.QueryEscape(c.user))
	response, err := transport.RoundTrip(request)
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = response.Body.Close() }()
	body, err = io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
	switch {
	case err != nil:
		return 0, nil, fmt.Errorf("read the answer: %w", err)
	case len(body) > maxAnswer:
		return 0, nil, fmt.Errorf("the answer is larger than %d bytes", maxAnswer)
	case !json.Valid(body):
		return 0, nil, fmt.Errorf("the answer with status %d is not JSON", response.StatusCode)
	}
	return response.StatusCode, body, nil
}
