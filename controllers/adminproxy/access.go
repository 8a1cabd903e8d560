package adminproxy

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/weir-dev/weir/api/v1alpha1"
)

// Access authenticates users, and decides what they can do.
type Access struct {
	Authenticator authenticator.Request
	Authorizer    authorizer.Authorizer
}

// An action is what a user does with a Limiter. Its permission is a verb on a subresource of limiters.weir.dev, which exists only for RBAC:
// so a role can apply to the Limiters of one namespace.
type action struct {
	verb, subresource string
	// role is the ClusterRole of config/rbac that grants the permission.
	role string
}

const (
	observer  = "weir-observer"
	responder = "weir-responder"
)

// impersonates reports whether the request has a header of impersonation. Ignoring it would give the caller more permissions than intended.
func impersonates(r *http.Request) bool {
	for name := range r.Header {
		if strings.HasPrefix(http.CanonicalHeaderKey(name), "Impersonate-") {
			return true
		}
	}
	return false
}

// admit returns the user of the request if the user is allowed to do a with the Limiter.
func (a *Access) admit(r *http.Request, namespace, limiter string, do action) (user.Info, *problem) {
	if impersonates(r) {
		return nil, newProblem(http.StatusBadRequest, "impersonation is not supported: use the credentials of the user")
	}
	found, ok, err := a.Authenticator.AuthenticateRequest(r)
	if !ok {
		if isUnavailable(err) {
			return nil, newProblem(http.StatusServiceUnavailable, "the API server does not answer who the user is: %v", err)
		}
		return nil, newProblem(http.StatusUnauthorized,
			"the request has no valid credentials: use a token or a client certificate of the Kubernetes API server%s", because(err))
	}
	decision, _, err := a.Authorizer.Authorize(r.Context(), &authorizer.AttributesRecord{
		User: found.User, Verb: do.verb, Namespace: namespace, Name: limiter,
		APIGroup: v1alpha1.GroupVersion.Group, APIVersion: v1alpha1.GroupVersion.Version, Resource: "limiters", Subresource: do.subresource,
		ResourceRequest: true,
	})
	switch {
	case err != nil:
		return nil, newProblem(http.StatusServiceUnavailable, "the API server does not answer whether user %q is allowed: %v", found.User.GetName(), err)
	case decision != authorizer.DecisionAllow:
		return nil, newProblem(http.StatusForbidden, "user %q cannot %s limiters/%s in namespace %s: bind the ClusterRole %s to the user",
			found.User.GetName(), do.verb, do.subresource, namespace, do.role)
	}
	return found.User, nil
}

// isUnavailable reports whether err is that of a call of the API server, and not its answer that the credentials are invalid.
func isUnavailable(err error) bool {
	if all, is := errors.AsType[utilerrors.Aggregate](err); is { // errors.As does not search it
		return slices.ContainsFunc(all.Errors(), isUnavailable)
	}
	_, isAnswer := errors.AsType[*apierrors.StatusError](err)
	_, isTransport := errors.AsType[*url.Error](err)
	return isAnswer || isTransport || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
}

func because(err error) string {
	if err == nil {
		return ""
	}
	return " (" + err.Error() + ")"
}
