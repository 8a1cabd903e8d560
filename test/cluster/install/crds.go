package install

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"time"

	"github.com/google/go-cmp/cmp"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/test/cluster/scenario"
)

// newField is a field that a later version could add.
const newField = "later"

// UpgradeCRDs applies the CRDs again, then with an additional field, then without the field. The stored objects must not change, including
// their status.
func (s Steps) UpgradeCRDs(ctx context.Context) error {
	p := scenario.Policy(scenario.Traffic, newField, 10, "1m")
	if err := s.CreateAll(ctx, p); err != nil {
		return err
	}
	if err := scenario.WaitUntil(s.HasCondition(p, scenario.Ready("Programmed")))(ctx); err != nil {
		return err
	}
	total, err := s.PoliciesForRequests(ctx)
	if err != nil {
		return err
	}
	if err := scenario.WaitUntil(s.CountsPolicies(total))(ctx); err != nil {
		return err
	}
	before, err := s.stored(ctx)
	if err != nil {
		return err
	}
	same := func(what string) error {
		after, err := s.stored(ctx)
		if err != nil {
			return err
		}
		s.Expect(len(before) == len(after), "%s: %d objects, want %d as before", what, len(after), len(before))
		for name, object := range before {
			difference := cmp.Diff(object, after[name])
			s.Expect(difference == "", "%s: %s has changed: %s", what, name, difference)
		}
		s.Logf("%s: %d objects are unchanged, including their status", what, len(after))
		return nil
	}
	if err := s.Run(ctx, "kubectl", "apply", "--server-side", "-k", "config/crd"); err != nil {
		return err
	}
	if err := same("CRDs applied again"); err != nil {
		return err
	}
	if err := scenario.Sequence(s.extendCRDs, s.writeNewField)(ctx); err != nil {
		return err
	}
	if err := same("CRDs with an additional field"); err != nil {
		return err
	}
	if err := s.Run(ctx, "kubectl", "apply", "--server-side", "-k", "config/crd"); err != nil {
		return err
	}
	if err := s.WaitForOperator(ctx); err != nil {
		return err
	}
	if err := same("CRDs without the field"); err != nil {
		return err
	}
	s.Within(ctx, 10*time.Second, "the policy that had the field is Ready", s.HasCondition(p, scenario.Ready("Programmed")))
	return s.Delete(ctx, p)
}

// stored returns the spec and the status of all objects of Weir, without the metadata that changes with every write.
func (s Steps) stored(ctx context.Context) (map[string]any, error) {
	found := map[string]any{}
	for _, kind := range []string{"LimiterList", "RateLimitPolicyList", "ClusterRateLimitPolicyList"} {
		var list unstructured.UnstructuredList
		list.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(kind))
		if err := s.List(ctx, &list); err != nil {
			return nil, err
		}
		for _, o := range list.Items {
			if o.GetName() == newField {
				continue
			}
			found[fmt.Sprintf("%s %s/%s %s", o.GetKind(), o.GetNamespace(), o.GetName(), o.GetUID())] = []any{o.GetGeneration(), o.Object["spec"], o.Object["status"]}
		}
	}
	return found, nil
}

// extendCRDs adds an optional field to each kind.
func (s Steps) extendCRDs(ctx context.Context) error {
	files, err := filepath.Glob("config/crd/bases/*.yaml")
	if err != nil {
		return err
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		var crd apiextensions.CustomResourceDefinition
		if err := yaml.UnmarshalStrict(text, &crd); err != nil {
			return fmt.Errorf("read %s: %w", file, err)
		}
		spec := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
		spec.Properties = maps.Clone(spec.Properties)
		spec.Properties[newField] = apiextensions.JSONSchemaProps{Type: "string"}
		crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"] = spec
		if text, err = yaml.Marshal(crd); err != nil {
			return err
		}
		if _, err := s.Pipe(ctx, string(text), "kubectl", "apply", "--server-side", "-f", "-"); err != nil {
			return err
		}
	}
	return nil
}

// writeNewField writes a policy with the field until the API server stores the field.
func (s Steps) writeNewField(ctx context.Context) error {
	p := scenario.Policy(scenario.Traffic, newField, 10, "1m")
	text, err := yaml.Marshal(map[string]any{
		"apiVersion": v1alpha1.GroupVersion.String(), "kind": "RateLimitPolicy",
		"metadata": map[string]string{"namespace": p.Namespace, "name": p.Name},
		"spec":     map[string]any{"axis": p.Spec.Axis, "limit": *p.Spec.Limit, "window": p.Spec.Window, newField: "yes"},
	})
	if err != nil {
		return err
	}
	_, err = scenario.Await(ctx, 20*time.Second, func(ctx context.Context) error {
		if _, err := s.Quietly(ctx, string(text), "kubectl", "apply", "--server-side", "--force-conflicts", "-f", "-"); err != nil {
			return err
		}
		var stored unstructured.Unstructured
		stored.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("RateLimitPolicy"))
		if err := s.Get(ctx, types.NamespacedName{Namespace: p.Namespace, Name: p.Name}, &stored); err != nil {
			return err
		}
		if value, _, _ := unstructured.NestedString(stored.Object, "spec", newField); value != "yes" {
			return fmt.Errorf("policy %s has %s=%q", client.ObjectKeyFromObject(p), newField, value)
		}
		return nil
	})
	return err
}
