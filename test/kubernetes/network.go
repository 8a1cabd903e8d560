package kubernetes

import (
	"context"
	"net"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"github.com/weir-dev/weir/controllers/deployment"
)

// routeService routes connections to the Service to the running limiters.
func (w *World) routeService(ctx context.Context) error {
	service, err := w.service(ctx)
	if err != nil {
		return err
	}
	var addresses []string
	for _, l := range w.limiters {
		addresses = append(addresses, l.address)
	}
	w.Kube.Services.Route(service, addresses...)
	return nil
}

// service returns the address, as ClusterIP:port, at which API servers call the limiters.
func (w *World) service(ctx context.Context) (string, error) {
	service, err := read(ctx, w, operatorNamespace, serviceName, &corev1.Service{})
	if err != nil {
		return "", err
	}
	return net.JoinHostPort(service.Spec.ClusterIP, strconv.Itoa(deployment.ThrottlePort)), nil
}
