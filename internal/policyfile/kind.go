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

// The group and the kind of tests of policies, which have no API server.
const (
	testGroup   = "cli.weir.dev"
	testVersion = testGroup + "/v1alpha1"
	testKind    = "PolicyTest"
)

// unknownKind returns the field and the message for an object of the group weir.dev or cli.weir.dev with an unknown kind or version.
func unknownKind(o *object) (field, message string) {
	kind, version, supported := o.text("kind"), apiVersion, kinds()
	if group, _, _ := strings.Cut(o.text("apiVersion"), "/"); group == testGroup && !slices.Contains(kinds(), kind) || kind == testKind {
		version, supported = testVersion, []string{testKind}
	}
	if slices.Contains(supported, kind) {
		return "apiVersion", fmt.Sprintf("%s has no version %q; write apiVersion: %s", kind, o.text("apiVersion"), version)
	}
	slices.Sort(supported)
	message = fmt.Sprintf("unknown kind %s in %s; supported kinds: %s in %s", kind, o.text("apiVersion"), strings.Join(supported, ", "), version)
	if meant := hint.Nearest(kind, supported); meant != "" {
		message += "; did you mean " + meant + "?"
	} else if slices.Contains(supported, strings.TrimSuffix(kind, "List")) {
		message += "; a list of them has apiVersion: v1 and kind: List"
	}
	return "kind", message
}

// otherGroups are the API groups of other programs that have a kind with a name of the Weir API.
var otherGroups = []string{"kuadrant.io", "gateway.nginx.org"} //nolint:gochecknoglobals // constant

// foreignKind returns the kind of the Weir API that an object in a wrong group probably means, also if it is misspelled, or "". The object of another
// program can be in the same directory, with the annotation that suppresses the finding.
func foreignKind(o *object) string {
	group, _, _ := strings.Cut(o.text("apiVersion"), "/")
	if _, isSuppressed := o.suppressions()[lintrule.ForeignGroup]; isSuppressed || slices.Contains(otherGroups, group) {
		return ""
	}
	kind := o.text("kind")
	if slices.Contains(kinds(), kind) {
		return kind
	}
	return hint.Nearest(kind, []string{policyKind, clusterPolicyKind}) // Limiter is shorter, and near to names of other programs
}

// foreignGroup returns the message about an object whose kind is a Weir kind in a wrong group.
func foreignGroup(o *object, kind string) string {
	message := fmt.Sprintf("%s in %s is not a kind of Weir, and limits nothing here; write apiVersion: %s", o.text("kind"), o.text("apiVersion"), apiVersion)
	if kind != o.text("kind") {
		message += " and kind: " + kind
	}
	return message
}

// incomplete returns the message about an object without apiVersion or kind.
func incomplete(o *object) string {
	for _, name := range []string{"apiVersion", "kind"} {
		if value := o.content[name]; value != nil && o.text(name) == "" {
			return fmt.Sprintf("an object must have apiVersion and kind; %s must be a text, and is the %s", name, hint.Describe(value))
		}
	}
	message, misspelled := "an object must have apiVersion and kind", ""
	if o.text("apiVersion") == "" {
		misspelled = hint.Misspelled(o.content, "apiVersion")
	}
	if o.text("kind") == "" {
		misspelled += hint.Misspelled(o.content, "kind")
	}
	message += misspelled
	if o.content["apiVersion"] == nil && o.content["kind"] == nil && misspelled == "" {
		message += "; if the file is a part of a chart or a kustomization, check their output, for example helm template CHART | weir lint -"
	}
	return message
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
