package policyfile

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	k8sjson "sigs.k8s.io/json"

	"github.com/weir-dev/weir/api/v1alpha1/policyapi"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/lintrule"
	"github.com/weir-dev/weir/internal/policyfile/hint"
)

// The kinds of the Weir API. A Limiter is validated, but not used.
const (
	policyKind        = "RateLimitPolicy"
	clusterPolicyKind = "ClusterRateLimitPolicy"
	limiterKind       = "Limiter"
)

// The group and the version of the Weir API.
const (
	apiGroup   = "weir.dev"
	apiVersion = apiGroup + "/v1alpha1"
)

func kinds() []string { return []string{policyKind, clusterPolicyKind, limiterKind} }

func isPolicyKind(kind string) bool { return kind == policyKind || kind == clusterPolicyKind }

// unknownKind returns the message for an object of the group weir.dev with an unknown kind or version.
func unknownKind(o *object) string {
	supported := kinds()
	slices.Sort(supported)
	message := fmt.Sprintf("unknown kind %s in %s; supported kinds: %s in %s", o.text("kind"), o.text("apiVersion"),
		strings.Join(supported, ", "), apiVersion)
	if meant := hint.Nearest(o.text("kind"), supported); meant != "" {
		message += "; did you mean " + meant + "?"
	}
	return message
}

// otherGroups are the API groups of other programs that have a kind with a name of the Weir API.
var otherGroups = []string{"kuadrant.io", "gateway.nginx.org"} //nolint:gochecknoglobals // constant

// isForeign reports whether an object looks like one of the Weir API in a wrong group. The object of another program can be in the same directory, with
// the annotation that suppresses the finding.
func isForeign(o *object) bool {
	group, _, _ := strings.Cut(o.text("apiVersion"), "/")
	_, isSuppressed := o.suppressions()[lintrule.ForeignGroup]
	return slices.Contains(kinds(), o.text("kind")) && !slices.Contains(otherGroups, group) && !isSuppressed
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
	content, err := json.Marshal(o.content)
	if err != nil {
		return err
	}
	if o.text("kind") == clusterPolicyKind {
		var policy policyapi.ClusterRateLimitPolicy
		if err := k8sjson.UnmarshalCaseSensitivePreserveInts(content, &policy); err != nil {
			return err
		}
		policies.Cluster = append(policies.Cluster, policy)
		return nil
	}
	var policy policyapi.RateLimitPolicy
	if err := k8sjson.UnmarshalCaseSensitivePreserveInts(content, &policy); err != nil {
		return err
	}
	policies.Namespaced = append(policies.Namespaced, policy)
	return nil
}
