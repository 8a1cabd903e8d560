package policyfile

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/config/crd"
	"github.com/weir-dev/weir/internal/compile"
)

// The kinds of Weir's API. A Limiter is no policy: it is validated, and nothing here runs it.
const (
	policyKind        = "RateLimitPolicy"
	clusterPolicyKind = "ClusterRateLimitPolicy"
	limiterKind       = "Limiter"
)

func kinds() []string { return []string{policyKind, clusterPolicyKind, limiterKind} }

func isPolicyKind(kind string) bool { return kind == policyKind || kind == clusterPolicyKind }

// newSchemas returns the schemas of all kinds, by kind.
func newSchemas() (map[string]*policySchema, error) {
	schemas := map[string]*policySchema{}
	for kind, definition := range map[string]string{
		policyKind: crd.RateLimitPolicies(), clusterPolicyKind: crd.ClusterRateLimitPolicies(), limiterKind: crd.Limiters(),
	} {
		s, err := newSchema(definition, v1alpha1.GroupVersion.Version)
		if err != nil {
			return nil, fmt.Errorf("schema of %s: %w", kind, err)
		}
		schemas[kind] = s
	}
	return schemas, nil
}

// unknownKind is what is said of an object of Weir's group and of a kind or version that it has not.
func unknownKind(o *object) string {
	known := kinds()
	slices.Sort(known)
	return fmt.Sprintf("no kind %s in %s; known are %s in %s", o.text("kind"), o.text("apiVersion"), strings.Join(known, ", "), v1alpha1.GroupVersion)
}

// key is the name of an object together with its kind.
type key struct{ kind, name string }

func (o *object) key() key { return key{o.text("kind"), o.policy()} }

// keyOf is the key of a policy that the compiler speaks of.
func keyOf(policy string, ofCluster bool) key {
	if ofCluster {
		return key{clusterPolicyKind, policy}
	}
	return key{policyKind, policy}
}

// decode appends to policies the one that o has become by its admission.
func (o *object) decode(policies *compile.Policies) error {
	if o.text("kind") == clusterPolicyKind {
		var policy v1alpha1.ClusterRateLimitPolicy
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.content, &policy); err != nil {
			return err
		}
		policies.Cluster = append(policies.Cluster, policy)
		return nil
	}
	var policy v1alpha1.RateLimitPolicy
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.content, &policy); err != nil {
		return err
	}
	policies.Namespaced = append(policies.Namespaced, policy)
	return nil
}
