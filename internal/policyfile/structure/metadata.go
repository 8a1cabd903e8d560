package structure

import (
	"errors"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/weir-dev/weir/api/v1alpha1/policyapi"
	"github.com/weir-dev/weir/internal/compile/labelselector"
)

// The forms of names of namespaces and of other objects: https://kubernetes.io/docs/concepts/overview/working-with-objects/names/.
var (
	namespaceName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)
	objectName    = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)
)

// maxName is a rule of the API: rate-limit headers, counter keys and metrics contain the name.
const maxName = 63

// metadata validates the metadata of an object, and leaves only what Weir reads.
func (v validator) metadata(given any) {
	metadata, isObject := given.(map[string]any)
	if !isObject {
		v.reportf("metadata", "must be an object with a name, and is %s", text(given))
		return
	}
	others := maps.Clone(metadata)
	for name, value := range others {
		switch name {
		case "name", "namespace", "labels":
			delete(others, name)
			if value == nil {
				delete(metadata, name)
			}
		default:
			delete(metadata, name)
		}
	}
	v.unread(others)
	v.name("name", metadata["name"], objectName)
	if namespace, has := metadata["namespace"]; has {
		v.name("namespace", namespace, namespaceName)
	}
	if labels, has := metadata["labels"]; has {
		v.labels(labels)
	}
}

// maxLimiterName is a rule of the API: the name is a part of that of a Service.
const maxLimiterName = 50

func (v validator) limiterName(given any) {
	metadata, _ := given.(map[string]any)
	name, _ := metadata["name"].(string)
	switch {
	case len(name) > maxLimiterName:
		v.reportf("metadata.name", "must have at most %d characters, and has %d", maxLimiterName, len(name))
	case strings.Contains(name, "."):
		v.reportf("metadata.name", "%s must not have a dot", text(name))
	}
}

func (v validator) name(field string, given any, form *regexp.Regexp) {
	switch name, isString := given.(string); {
	case given == nil, name == "" && isString:
		v.report("metadata."+field, "is required")
	case !isString:
		v.reportf("metadata."+field, "must be of type string, and is the %s %s", typeOf(given), text(given))
	case len(name) > maxName:
		v.reportf("metadata."+field, "must have at most %d characters, and has %d", maxName, len(name))
	case !form.MatchString(name):
		v.reportf("metadata."+field, "%s must be lower-case letters, digits and hyphens, and begin and end with a letter or digit", text(name))
	}
}

// labels validates labels, and sets those that are null to the empty text, as an API server does.
func (v validator) labels(given any) {
	labels, isObject := given.(map[string]any)
	if !isObject {
		v.reportf("metadata.labels", "must be an object, and is the %s %s", typeOf(given), text(given))
		return
	}
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		if labels[key] == nil {
			labels[key] = ""
		}
		value, isString := labels[key].(string)
		if !isString {
			v.reportf("metadata.labels."+key, "must be of type string, and is the %s %s", typeOf(labels[key]), text(labels[key]))
			continue
		}
		if err := validLabel(key, value); err != nil {
			v.report("metadata.labels", err.Error())
		}
	}
}

func validLabel(key, value string) error {
	return labelselector.Validate(&policyapi.LabelSelector{MatchLabels: map[string]string{key: value}})
}

func isQualifiedName(text string) error {
	if validLabel(text, "") != nil {
		return errors.New("must be a name of at most 63 letters, digits, dots, hyphens and underscores, or a DNS name, a slash and such a name")
	}
	return nil
}
