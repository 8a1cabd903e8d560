package throttle

import (
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
)

// isController says whether who writes has others waiting behind them. Their clients would sleep through a Retry-After with
// one of few workers, and so hold up namespaces that are far from any limit.
//
// That is so of the cluster's own parts, which are called system:something, and of a service account that writes outside of
// its own namespace. One that writes within it, and a person, wait for themselves alone.
func isController(in *admissionv1.AdmissionRequest) bool {
	name, system := strings.CutPrefix(in.UserInfo.Username, "system:")
	if !system {
		return false
	}
	account, is := strings.CutPrefix(name, "serviceaccount:")
	if !is {
		return true
	}
	home, _, _ := strings.Cut(account, ":")
	return home != in.Namespace
}
