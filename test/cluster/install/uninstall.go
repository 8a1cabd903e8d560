package install

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

	"github.com/weir-dev/weir/test/cluster/scenario"
)

// Uninstall runs the commands of docs/how-to/upgrade-and-uninstall.md. The Limiters are already deleted.
func (s Steps) Uninstall(ctx context.Context) error {
	err := scenario.Sequence(
		s.Command("kubectl", "delete", "limiters", "--all", "--all-namespaces", "--timeout=60s"),
		s.Command("kubectl", "delete", "-k", "config/webhook", "--timeout=60s"),
		s.Command("kubectl", "delete", "-k", "config/operator", "--timeout=120s"),
		s.Command("kubectl", "delete", "-k", "config/rbac", "--ignore-not-found", "--timeout=60s"),
		s.Command("kubectl", "delete", "-k", "config/crd", "--timeout=60s"),
		s.deleteOwn,
	)(ctx)
	if err != nil {
		return err
	}
	s.checkNothingIsLeft(ctx)
	return nil
}

// deleteOwn deletes the namespaces of the samples and of the test.
func (s Steps) deleteOwn(ctx context.Context) error {
	return s.Run(ctx, "kubectl", "delete", "namespace", "shop", scenario.Traffic, scenario.Misconfigured, scenario.Writing, strings.Repeat("n", 63),
		"--ignore-not-found", "--timeout=120s")
}

func (s Steps) checkNothingIsLeft(ctx context.Context) {
	s.Within(ctx, 60*time.Second, "no object of Weir is left", func(ctx context.Context) error {
		left, err := s.leftovers(ctx)
		if err == nil && len(left) > 0 {
			err = fmt.Errorf("left: %s", strings.Join(left, ", "))
		}
		return err
	})
}

// leftovers returns all objects of all kinds that have "weir" in their name, their namespace or a label. Events are not included, because
// they expire within an hour.
func (s Steps) leftovers(ctx context.Context) ([]string, error) {
	lists, err := discovery.ServerPreferredResources(s.Sets.Discovery())
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

func (s Steps) leftoversOf(ctx context.Context, kind schema.GroupVersionKind) ([]string, error) {
	var objects metav1.PartialObjectMetadataList
	objects.SetGroupVersionKind(kind)
	err := s.List(ctx, &objects)
	if apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err) { // the kind is being deleted
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list %v: %w", kind, err)
	}
	var left []string
	for i := range objects.Items {
		if o := &objects.Items[i]; belongsToWeir(o.ObjectMeta) {
			left = append(left, fmt.Sprintf("%s %s/%s", strings.TrimSuffix(kind.Kind, "List"), o.Namespace, o.Name))
		}
	}
	return left, nil
}

func belongsToWeir(o metav1.ObjectMeta) bool {
	words := []string{o.Name, o.Namespace}
	for key, value := range o.Labels {
		words = append(words, key, value)
	}
	return strings.Contains(strings.Join(words, " "), "weir")
}
