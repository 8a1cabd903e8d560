package main

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/types"
)

// templateApplied checks that the Deployment has the annotations of the Limiter.
func (s *scenario) templateApplied(ctx context.Context) error {
	limiter := limiterNamed(system, "default")
	d, err := s.limiterDeployment(ctx)
	if err != nil {
		return err
	}
	if err := s.hasCondition(limiter, condition{kind: "Programmed", status: "True"})(ctx); err != nil {
		return err
	}
	for key, value := range limiter.Spec.PodTemplate.Annotations {
		if d.Spec.Template.Annotations[key] != value {
			return fmt.Errorf("the template has %s=%q, want %q", key, d.Spec.Template.Annotations[key], value)
		}
	}
	return nil
}

// runsImage checks that the Deployment of the limiters has the image.
func (s *scenario) runsImage(image string) action {
	return func(ctx context.Context) error {
		d, err := s.limiterDeployment(ctx)
		if err == nil && d.Spec.Template.Spec.Containers[0].Image != image {
			err = fmt.Errorf("limiters run %s, want %s", d.Spec.Template.Spec.Containers[0].Image, image)
		}
		return err
	}
}

func (s *scenario) limiterDeployment(ctx context.Context) (d appsv1.Deployment, err error) {
	err = s.Get(ctx, types.NamespacedName{Namespace: system, Name: limiterPods}, &d)
	return d, err
}
