package flags

import (
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

func TestLimiterName_ParsesNamespaceAndName(t *testing.T) {
	tests := map[string]struct {
		text string
		want types.NamespacedName
		err  bool
	}{
		"namespace and name": {text: "weir-system/default", want: types.NamespacedName{Namespace: "weir-system", Name: "default"}},
		"a name alone":       {text: "default", err: true},
		"no name":            {text: "weir-system/", err: true},
		"no namespace":       {text: "/default", err: true},
		"three parts":        {text: "a/b/c", err: true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := LimiterName(test.text)
			if (err != nil) != test.err || got != test.want {
				t.Errorf("%v, %v; want %v, an error: %v", got, err, test.want, test.err)
			}
		})
	}
}
