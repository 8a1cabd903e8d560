package flags

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// LimiterName parses "namespace/name".
func LimiterName(text string) (types.NamespacedName, error) {
	namespace, name, ok := strings.Cut(text, "/")
	if !ok || namespace == "" || name == "" || strings.Contains(name, "/") {
		return types.NamespacedName{}, fmt.Errorf("limiter %q is invalid: must have the form namespace/name", text)
	}
	return types.NamespacedName{Namespace: namespace, Name: name}, nil
}
