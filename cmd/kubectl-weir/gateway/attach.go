package gateway

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/controllers/deployment"
)

// ErrNotAttached means that a Gateway has no objects of an attachment.
var ErrNotAttached = errors.New("the Gateway is not attached")

// Found is what the objects of an attachment depend on.
type Found struct {
	limiter *v1alpha1.Limiter
	gateway *unstructured.Unstructured
	// existing has the objects of the attachment that exist, in the order of [Attachment.Objects]; nil for each that does not.
	existing []*unstructured.Unstructured
	// Notes are what the user has to know or do in addition. Each is a sentence without a period.
	Notes []string
}

// Check reads what the attachment depends on. It fails if the Gateway or the Limiter does not exist, if another SecurityPolicy has the Gateway
// as its target, or if another user created an object with the name of one of the attachment.
func Check(ctx context.Context, c client.Client, a *Attachment) (*Found, error) {
	found := &Found{limiter: &v1alpha1.Limiter{}, gateway: emptyObject(gatewayKind(), a.Gateway)}
	if err := get(ctx, c, a.Gateway, found.gateway); err != nil {
		return nil, err
	}
	if err := c.Get(ctx, a.Limiter, found.limiter); meta.IsNoMatchError(err) {
		return nil, errors.New("the cluster does not have the CRDs of Weir: install Weir, or select another cluster with --context")
	} else if apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("there is no Limiter %s: create it, or select another with --limiter", a.Limiter)
	} else if err != nil {
		return nil, fmt.Errorf("read Limiter %s: %w", a.Limiter, err)
	}
	if err := found.checkPolicies(ctx, c, a); err != nil {
		return nil, err
	}
	if err := found.readExisting(ctx, c, a); err != nil {
		return nil, err
	}
	if found.limiter.Spec.Endpoints.GRPC.TLS != nil {
		found.note("Limiter %s requires TLS at its gRPC endpoint: create a BackendTLSPolicy for Service %s in its namespace", a.Limiter,
			deployment.Name(a.Limiter.Name))
	}
	if len(found.limiter.Spec.NetworkPolicy.From.GRPC) > 0 {
		found.note("Limiter %s restricts the peers of its gRPC endpoint: add the pods of Envoy to spec.networkPolicy.from.grpc", a.Limiter)
	}
	return found, nil
}

func (f *Found) note(format string, values ...any) {
	f.Notes = append(f.Notes, fmt.Sprintf(format, values...))
}

// get reads an object of a kind that other projects define.
func get(ctx context.Context, c client.Reader, key types.NamespacedName, object *unstructured.Unstructured) error {
	kind := object.GetKind()
	err := c.Get(ctx, key, object)
	switch {
	case meta.IsNoMatchError(err):
		return missingKind(kind)
	case apierrors.IsNotFound(err):
		return fmt.Errorf("%s %s does not exist: check its name, and its namespace in --namespace", kind, key)
	case err != nil:
		return fmt.Errorf("read %s %s: %w", kind, key, err)
	}
	return nil
}

func missingKind(kind string) error {
	return fmt.Errorf("the cluster does not have the CRD of %s: install Envoy Gateway", kind)
}

// checkPolicies rejects a second SecurityPolicy for the Gateway: Envoy Gateway obeys only the oldest.
func (f *Found) checkPolicies(ctx context.Context, c client.Client, a *Attachment) error {
	policies, err := listPolicies(ctx, c, client.InNamespace(a.Gateway.Namespace))
	if err != nil {
		return err
	}
	own := policyKey(a.Gateway)
	for i := range policies {
		p := &policies[i]
		_, managed := limiterOf(p)
		if p.GetName() == own.Name && managed {
			continue
		}
		if p.GetName() == own.Name {
			return fmt.Errorf("SecurityPolicy %s exists and was not created by this command: rename or delete it", own)
		}
		isOther := selects(p, f.gateway)
		for _, target := range targets(p) {
			if target["kind"] != gatewayKind().Kind || target["name"] != a.Gateway.Name {
				continue
			}
			if section := target["sectionName"]; section != nil {
				f.note("listener %v of the Gateway has SecurityPolicy %s: its requests do not reach Weir, unless you add spec.extAuth there", section, p.GetName())
				continue
			}
			isOther = true
		}
		if isOther {
			return fmt.Errorf("%w %s: Envoy Gateway obeys only the oldest of two. Add spec.extAuth there, as printed with --dry-run, and create "+
				"the ReferenceGrant, if one is printed", errOtherPolicy, client.ObjectKeyFromObject(p))
		}
	}
	return nil
}

var errOtherPolicy = errors.New("the Gateway already has SecurityPolicy")

// IsConflict reports whether an error of [Check] is about another SecurityPolicy of the Gateway.
func IsConflict(err error) bool { return errors.Is(err, errOtherPolicy) }

// listPolicies lists the SecurityPolicies of the cluster that the options select.
func listPolicies(ctx context.Context, c client.Reader, options ...client.ListOption) ([]unstructured.Unstructured, error) {
	var policies unstructured.UnstructuredList
	policies.SetGroupVersionKind(policyKind())
	err := c.List(ctx, &policies, options...)
	if meta.IsNoMatchError(err) {
		return nil, missingKind(policyKind().Kind)
	}
	if err != nil {
		return nil, fmt.Errorf("list SecurityPolicies: %w", err)
	}
	return policies.Items, nil
}
