package apischema

import (
	"fmt"
	"sync"
	"weak"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/config/crd"
)

// Schemas validate the objects of the Weir API as an API server does.
type Schemas struct{ byKind map[string]*policySchema }

// parsed are the schemas as long as they are in use: all users have the same CRDs.
var parsed struct { //nolint:gochecknoglobals // see above
	sync.Mutex

	schemas weak.Pointer[Schemas]
}

// New returns the schemas of the CRDs. The first call takes about a quarter of a second, as the first one after all Schemas are collected.
func New() (*Schemas, error) {
	parsed.Lock()
	defer parsed.Unlock()
	if schemas := parsed.schemas.Value(); schemas != nil {
		return schemas, nil
	}
	byKind := map[string]*policySchema{}
	for kind, definition := range map[string]string{
		"RateLimitPolicy": crd.RateLimitPolicies(), "ClusterRateLimitPolicy": crd.ClusterRateLimitPolicies(), "Limiter": crd.Limiters(),
	} {
		s, err := newSchema(definition, v1alpha1.GroupVersion.Version)
		if err != nil {
			return nil, fmt.Errorf("schema of %s: %w", kind, err)
		}
		byKind[kind] = s
	}
	schemas := &Schemas{byKind}
	parsed.schemas = weak.Make(schemas)
	return schemas, nil
}

// Admit processes the content of an object as an API server does when a client creates it with strict field validation: it reports unknown fields and
// what is invalid, sets defaults and removes the status. Content is valid only if Admit reports nothing.
func (s *Schemas) Admit(kind string, content map[string]any, report func(field, message string)) {
	for _, f := range s.byKind[kind].admit(content) {
		report(f.field, f.message)
	}
}

// IsComplete returns true.
func (s *Schemas) IsComplete() bool { return true }
