package main

import (
	"context"
	"fmt"
	"os"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-dev/weir/controllers/deployment"
)

const (
	// containerName is the name of the operator's container in its pod.
	containerName = "operator"
	// builtImage is the image that `make image` builds. It is the default of an operator outside a pod.
	builtImage = "weir:latest"
)

// limiterOptions returns the options that all Limiters share. It reads from the API server what the flags leave open.
func (f *operatorFlags) limiterOptions(ctx context.Context, kube *rest.Config) (deployment.Options, error) {
	options := deployment.Options{
		Image: f.image, KeyPrefix: f.prefix, NetworkPolicies: f.networkPolicies, OperatorNamespace: f.namespace,
		WatchNamespaces: f.watchNamespaces, PodMonitorLabels: f.monitorLabels,
	}
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		return options, fmt.Errorf("register the core API: %w", err)
	}
	reader, err := client.New(kube, client.Options{Scheme: scheme})
	if err != nil {
		return options, fmt.Errorf("connect to the Kubernetes API server: %w", err)
	}
	if options.Image == "" {
		if options.Image, err = ownImage(ctx, reader, f.namespace, os.Getenv("POD_NAME")); err != nil {
			return options, err
		}
	}
	_, err = reader.RESTMapper().RESTMapping(schema.GroupKind{Group: "monitoring.coreos.com", Kind: "PodMonitor"})
	if err != nil && !meta.IsNoMatchError(err) {
		return options, fmt.Errorf("check whether the cluster has the PodMonitor API: %w", err)
	}
	options.PodMonitors = err == nil
	return options, nil
}

// ownImage returns the image of the operator's own container, or builtImage if pod is empty.
func ownImage(ctx context.Context, reader client.Reader, namespace, pod string) (string, error) {
	if pod == "" {
		return builtImage, nil
	}
	var own corev1.Pod
	if err := reader.Get(ctx, types.NamespacedName{Namespace: namespace, Name: pod}, &own); err != nil {
		err = fmt.Errorf("read the image of limiters from the operator's own pod: %w", err)
		if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
			err = fmt.Errorf("%w; set --limiter-image to name the image", err)
		}
		return "", err
	}
	for _, c := range own.Spec.Containers {
		if c.Name == containerName {
			return c.Image, nil
		}
	}
	return "", fmt.Errorf("pod %s/%s has no container %s: set --limiter-image to name the image of limiters", namespace, pod, containerName)
}
