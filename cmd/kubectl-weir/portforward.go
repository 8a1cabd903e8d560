package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
	streamhttp "k8s.io/streaming/pkg/httpstream"

	"github.com/weir-dev/weir/cmd/internal/cli"
	"github.com/weir-dev/weir/controllers/deployment"
)

// forward forwards a local port to the admin endpoint of an operator until stop is called, and returns its address. ctx bounds only the beginning.
func (f *clusterFlags) forward(ctx context.Context, config *rest.Config) (address string, stop func(), err error) {
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return "", nil, cli.UsageError(fmt.Errorf("read the kubeconfig: %w", err))
	}
	pod, port, err := f.operatorPod(ctx, kube)
	if err != nil {
		return "", nil, err
	}
	target := kube.CoreV1().RESTClient().Post().Resource("pods").Namespace(pod.Namespace).Name(pod.Name).SubResource("portforward").URL()
	transport, upgrader, err := spdy.RoundTripperFor(config)
	if err != nil {
		return "", nil, fmt.Errorf("connect to %s: %w", target, err)
	}
	websocket, err := portforward.NewSPDYOverWebsocketDialerForStreaming(target, config)
	if err != nil {
		return "", nil, fmt.Errorf("connect to %s: %w", target, err)
	}
	dialer := portforward.NewFallbackDialerForStreaming(websocket,
		spdy.NewDialerForStreaming(upgrader, &http.Client{Transport: transport}, http.MethodPost, target),
		func(err error) bool { return streamhttp.IsUpgradeFailure(err) || streamhttp.IsHTTPSProxyError(err) })
	forwarding, cancel := context.WithCancel(context.WithoutCancel(ctx)) // not stop: the function that is returned as stop calls it
	ready := make(chan struct{})
	forwarder, err := portforward.NewOnAddressesForStreamingWithContext(forwarding, dialer, []string{"127.0.0.1"}, []string{fmt.Sprintf(":%d", port)},
		ready, io.Discard, io.Discard)
	if err != nil {
		cancel()
		return "", nil, fmt.Errorf("forward a port to pod %s: %w", pod.Name, err)
	}
	ended := make(chan error, 1)
	go func() { ended <- forwarder.ForwardPorts() }()
	select {
	case err = <-ended:
		cancel()
		return "", nil, f.explainForbidden(fmt.Errorf("forward a port to pod %s: %w", pod.Name, err))
	case <-ctx.Done():
		cancel()
		<-ended //nolint:errcheck // ctx has ended it
		return "", nil, fmt.Errorf("forward a port to pod %s: %w", pod.Name, ctx.Err())
	case <-ready:
	}
	ports, err := forwarder.GetPorts()
	if err != nil {
		cancel()
		return "", nil, err
	}
	return fmt.Sprintf("127.0.0.1:%d", ports[0].Local), func() {
		cancel()
		<-ended //nolint:errcheck // the command has its answer
	}, nil
}

// operatorPod returns a ready pod of the operator, and the port of its admin endpoint.
func (f *clusterFlags) operatorPod(ctx context.Context, kube kubernetes.Interface) (*corev1.Pod, int32, error) {
	const labels = "app.kubernetes.io/name=weir,app.kubernetes.io/component=operator"
	pods, err := kube.CoreV1().Pods(f.operatorNamespace).List(ctx, metav1.ListOptions{LabelSelector: labels})
	if err != nil {
		return nil, 0, f.explainForbidden(fmt.Errorf("find the operator: %w", err))
	}
	withoutPort := ""
	for i := range pods.Items {
		pod := &pods.Items[i]
		ready := slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
		})
		if !ready || pod.DeletionTimestamp != nil {
			continue
		}
		if port := adminPort(pod); port != 0 {
			return pod, port, nil
		}
		withoutPort = pod.Name // for example of the previous version, during an upgrade
	}
	if withoutPort != "" {
		return nil, 0, fmt.Errorf("pod %s of the operator has no port %q: the operator runs without --admin-bind-address, or is an older version",
			withoutPort, deployment.AdminPortName)
	}
	return nil, 0, fmt.Errorf("no operator is ready in namespace %s: set --operator-namespace, or see kubectl -n %s get pods -l %s",
		f.operatorNamespace, f.operatorNamespace, labels)
}

// adminPort returns the port of the admin endpoint of a pod, or 0.
func adminPort(pod *corev1.Pod) int32 {
	for i := range pod.Spec.Containers {
		for _, port := range pod.Spec.Containers[i].Ports {
			if port.Name == deployment.AdminPortName {
				return port.ContainerPort
			}
		}
	}
	return 0
}

// explainForbidden adds what to do about a missing permission.
func (f *clusterFlags) explainForbidden(err error) error {
	if apierrors.IsForbidden(err) || strings.Contains(strings.ToLower(err.Error()), "forbidden") {
		return fmt.Errorf("%w; bind the Role weir-admin-access in namespace %s to the user", err, f.operatorNamespace)
	}
	return err
}
