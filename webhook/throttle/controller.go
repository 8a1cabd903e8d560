package throttle

import (
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
)

// isController reports whether the requester serves more than one namespace. A client waits for a Retry-After with one of its few
// workers, so that a wait would delay namespaces that are far from any limit.
//
// Controllers are the components of the cluster, with user names that begin with "system:", and service accounts that write outside
// of their own namespace. A person, and a service account that writes to its own namespace, delay only themselves.
func isController(request *admissionv1.AdmissionRequest) bool {
	name, system := strings.CutPrefix(request.UserInfo.Username, "system:")
	if !system {
		return false
	}
	account, ok := strings.CutPrefix(name, "serviceaccount:")
	if !ok {
		return true
	}
	home, _, _ := strings.Cut(account, ":")
	return home != request.Namespace
}
