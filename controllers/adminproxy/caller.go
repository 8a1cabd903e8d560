package adminproxy

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/controllers/adminproxy/proxyapi"
	"github.com/weir-dev/weir/controllers/deployment"
	"github.com/weir-dev/weir/controllers/hashkey"
	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/mutualtls"
)

const (
	// replicaTimeout bounds the time until a replica answers, and then the time that its answer takes. A page of counters takes up to a second.
	replicaTimeout = 5 * time.Second
	// callTimeout bounds the calls of all replicas. Commands wait for 30 seconds.
	callTimeout = 25 * time.Second
	// maxConnections is the number of replicas that a request calls at the same time.
	maxConnections = 32
	// maxAnswerHeader is the size of the largest header of an answer, in bytes.
	maxAnswerHeader = 32 << 10
	// CallerHeader is admin.CallerHeader. A test of cmd/weir compares them: this package does not import what enforces limits.
	CallerHeader = "Weir-Caller"
)

var errNoTime = fmt.Errorf("the calls of the replicas have taken %v: try again", callTimeout)

// caller calls limiters.
type caller struct {
	hashKey *limiter.HashKey
	// timeout is replicaTimeout, and total callTimeout.
	timeout, total time.Duration
	// large has an element while a large answer is in memory.
	large chan struct{}
}

func newCaller(hashKey *limiter.HashKey) *caller {
	return &caller{hashKey: hashKey, timeout: replicaTimeout, total: callTimeout, large: make(chan struct{}, 1)}
}

// call is a request to limiters.
type call struct {
	method, path, query string
	body                []byte
	user                string
	// maxAnswer is the size of the largest answer, in bytes.
	maxAnswer int
	// isChange is true if the replicas change something.
	isChange bool
}

// reply is an answer whose body is not read, or the error of the call.
type reply struct {
	response *http.Response
	err      error
	// cancel ends the call.
	cancel context.CancelCauseFunc
}

// transport returns a transport to the replicas of a Limiter. Calls are rare, and other pods reuse addresses: each call has its own connection.
func (c *caller) transport(of *v1alpha1.Limiter) (*http.Transport, error) {
	config, err := c.tlsConfig(of)
	if err != nil {
		return nil, err
	}
	return &http.Transport{TLSClientConfig: config, DisableKeepAlives: true, DisableCompression: true, MaxResponseHeaderBytes: maxAnswerHeader}, nil
}

// tlsConfig returns the TLS configuration for the replicas of a Limiter.
func (c *caller) tlsConfig(of *v1alpha1.Limiter) (*tls.Config, error) {
	server := mutualtls.LimiterKey(hashkey.Of(c.hashKey, of)).Public()
	return mutualtls.Client(mutualtls.OperatorKey(c.hashKey), server.(ed25519.PublicKey)) //nolint:forcetypeassert // never another type
}

// callAll calls the pods of a Limiter, several at the same time, and passes their answers to each, in the order of the pods, until each returns
// false. Only one body is in memory: each must not keep it.
func (c *caller) callAll(ctx context.Context, of *v1alpha1.Limiter, pods []corev1.Pod, request *call, each func(*proxyapi.Replica) bool) error {
	transport, err := c.transport(of)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, c.total, errNoTime)
	defer cancel() // also closes the connections of answers that are not read
	replies := make([]chan reply, len(pods))
	start := func(i int) {
		if i < len(pods) {
			replies[i] = make(chan reply, 1)
			go func() { replies[i] <- c.send(ctx, transport, &pods[i], request) }()
		}
	}
	for i := range maxConnections {
		start(i)
	}
	for i := range pods {
		got := <-replies[i]
		more := c.receive(&got, &pods[i], request, each)
		got.cancel(nil)
		if !more {
			break
		}
		start(i + maxConnections)
	}
	return nil
}

// send calls a pod, and waits for the header of its answer.
func (c *caller) send(ctx context.Context, transport http.RoundTripper, pod *corev1.Pod, what *call) reply {
	ctx, cancel := context.WithCancelCause(ctx)
	address, err := adminAddress(pod)
	if err != nil {
		return reply{nil, err, cancel}
	}
	target := url.URL{Scheme: "https", Host: address, Path: what.path, RawQuery: what.query}
	request, err := http.NewRequestWithContext(ctx, what.method, target.String(), bytes.NewReader(what.body))
	if err != nil {
		return reply{nil, err, cancel}
	}
	request.Header.Set(CallerHeader, url.QueryEscape(what.user))
	defer time.AfterFunc(c.timeout, func() { cancel(context.DeadlineExceeded) }).Stop()
	response, err := transport.RoundTrip(request) //nolint:bodyclose // receive closes it, or the end of ctx
	return reply{response, err, cancel}           // err is the cause if ctx has ended
}

// receive reads an answer, and passes it to each.
func (c *caller) receive(from *reply, pod *corev1.Pod, request *call, each func(*proxyapi.Replica) bool) bool {
	replica := proxyapi.Replica{Pod: pod.Name}
	err := from.err
	if err == nil {
		defer func() { _ = from.response.Body.Close() }()
		var release func()
		replica.Body, release, err = c.read(from, request)
		defer release()
	}
	if err != nil {
		replica.Body, replica.Error = nil, describe(pod, err)
	} else {
		replica.Status = from.response.StatusCode
	}
	return each(&replica)
}

// read reads the body of an answer. The caller calls release when it does not use the body anymore.
func (c *caller) read(from *reply, request *call) (body json.RawMessage, release func(), err error) {
	ctx := from.response.Request.Context()
	defer time.AfterFunc(c.timeout, func() { from.cancel(context.DeadlineExceeded) }).Stop()
	if request.isChange { // waits for no other answer: it must be known whether the replica has done it
		release = func() {}
		body, err = readInto(nil, from.response.Body, request.maxAnswer+1)
	} else {
		body, release, err = c.readBounded(ctx, from.response.Body, request.maxAnswer)
	}
	switch {
	case errors.Is(err, errBusy):
	case err != nil && context.Cause(ctx) != nil:
		err = context.Cause(ctx)
	case err != nil:
		err = fmt.Errorf("read the answer: %w", err)
	case len(body) > request.maxAnswer:
		err = fmt.Errorf("the answer is larger than %d bytes", request.maxAnswer)
	case !json.Valid(body):
		err = fmt.Errorf("the answer with status %d is not JSON", from.response.StatusCode)
	}
	return body, release, err
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
