package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
)

// uninstall does what docs/how-to/upgrade-and-uninstall.md says; the Limiters have gone already.
func uninstall(ctx context.Context, s *story) error {
	err := inOrder(
		s.types("kubectl", "delete", "limiters", "--all", "--all-namespaces", "--timeout=60s"),
		s.types("kubectl", "delete", "-k", "config/webhook", "--timeout=60s"),
		s.types("kubectl", "delete", "-k", "config/operator", "--timeout=120s"),
		s.types("kubectl", "delete", "-k", "config/rbac", "--ignore-not-found", "--timeout=60s"),
		s.types("kubectl", "delete", "-k", "config/crd", "--timeout=60s"),
		s.deleteOwn,
	)(ctx)
	if err != nil {
		return err
	}
	s.nothingIsLeft(ctx)
	return nil
}

// deleteOwn deletes what is no part of Weir: the namespaces of the samples and of the story.
func (s *story) deleteOwn(ctx context.Context) error {
	return s.run(ctx, "kubectl", "delete", "namespace", "shop", traffic, mistaken, strings.Repeat("n", 63), "--ignore-not-found", "--timeout=120s")
}

func (s *story) nothingIsLeft(ctx context.Context) {
	s.within(ctx, 60*time.Second, "nothing of Weir is left", func(ctx context.Context) error {
		left, err := s.leftovers(ctx)
		if err == nil && len(left) > 0 {
			err = fmt.Errorf("left: %s", strings.Join(left, ", "))
		}
		return err
	})
}

// leftovers are all objects of the cluster, of whatever kind can be listed, that have weir in their name, their namespace or
// a label. Events are none: they go by themselves, within the hour.
func (s *story) leftovers(ctx context.Context) ([]string, error) {
	lists, err := discovery.ServerPreferredResources(s.discovery)
	if err != nil {
		return nil, fmt.Errorf("list the kinds of the cluster: %w", err)
	}
	var left []string
	for _, list := range lists {
		version, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return nil, err
		}
		for i := range list.APIResources {
			r := &list.APIResources[i]
			if !slices.Contains(r.Verbs, "list") || r.Kind == "Event" {
				continue
			}
			found, err := s.leftoversOf(ctx, version.WithKind(r.Kind+"List"))
			if err != nil {
				return nil, err
			}
			left = append(left, found...)
		}
	}
	return left, nil
}

func (s *story) leftoversOf(ctx context.Context, kind schema.GroupVersionKind) ([]string, error) {
	var objects metav1.PartialObjectMetadataList
	objects.SetGroupVersionKind(kind)
	err := s.List(ctx, &objects)
	if apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err) { // a kind that goes just now
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list %v: %w", kind, err)
	}
	var left []string
	for i := range objects.Items {
		if o := &objects.Items[i]; isWeirs(o.ObjectMeta) {
			left = append(left, fmt.Sprintf("%s %s/%s", strings.TrimSuffix(kind.Kind, "List"), o.Namespace, o.Name))
		}
	}
	return left, nil
}

func isWeirs(o metav1.ObjectMeta) bool {
	words := []string{o.Name, o.Namespace}
	for key, value := range o.Labels {
		words = append(words, key, value)
	}
	return strings.Contains(strings.Join(words, " "), "weir")
}
