package policyfile

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"weak"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/config/crd"
	"github.com/weir-dev/weir/internal/compile"
)

// The kinds of the Weir API. A Limiter is validated, but not used.
const (
	policyKind        = "RateLimitPolicy"
	clusterPolicyKind = "ClusterRateLimitPolicy"
	limiterKind       = "Limiter"
)

func kinds() []string { return []string{policyKind, clusterPolicyKind, limiterKind} }

func isPolicyKind(kind string) bool { return kind == policyKind || kind == clusterPolicyKind }

// schemas are the schemas of all kinds, by kind.
type schemas map[string]*policySchema

// parsed are the schemas as long as there is a Loader: all of them use the same CRDs.
var parsed struct { //nolint:gochecknoglobals // see above
	sync.Mutex

	schemas weak.Pointer[schemas]
}

// parseSchemas returns the schemas, which takes about a quarter of a second if there is no Loader.
func parseSchemas() (*schemas, error) {
	parsed.Lock()
	defer parsed.Unlock()
	if schemas := parsed.schemas.Value(); schemas != nil {
		return schemas, nil
	}
	byKind, err := newSchemas()
	if err != nil {
		return nil, err
	}
	stored := new(schemas)
	*stored = byKind
	parsed.schemas = weak.Make(stored)
	return stored, nil
}

func newSchemas() (map[string]*policySchema, error) {
	byKind := map[string]*policySchema{}
	for kind, definition := range map[string]string{
		policyKind: crd.RateLimitPolicies(), clusterPolicyKind: crd.ClusterRateLimitPolicies(), limiterKind: crd.Limiters(),
	} {
		s, err := newSchema(definition, v1alpha1.GroupVersion.Version)
		if err != nil {
			return nil, fmt.Errorf("schema of %s: %w", kind, err)
		}
		byKind[kind] = s
	}
	return byKind, nil
}

// unknownKind returns the message for an object of the group weir.dev with an unknown kind or version.
func unknownKind(o *object) string {
	supported := kinds()
	slices.Sort(supported)
	return fmt.Sprintf("unknown kind %s in %s; supported kinds: %s in %s", o.text("kind"), o.text("apiVersion"),
		strings.Join(supported, ", "), v1alpha1.GroupVersion)
}

// key is the name of an object together with its kind.
type key struct{ kind, name string }

func (o *object) key() key { return key{o.text("kind"), o.policy()} }

// keyOf returns the key of a policy in a result of the compiler.
func keyOf(policy string, ofCluster bool) key {
	if ofCluster {
		return key{clusterPolicyKind, policy}
	}
	return key{policyKind, policy}
}

// decode converts the defaulted content of o and appends it to policies.
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
