package install

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-dev/weir/test/cluster/scenario"
)

func TestBelongsToWeir_ChecksNameNamespaceAndLabels(t *testing.T) {
	for name, c := range map[string]struct {
		object metav1.ObjectMeta
		is     bool
	}{
		"by its name":           {metav1.ObjectMeta{Name: "limiters.weir.dev"}, true},
		"by its namespace":      {metav1.ObjectMeta{Name: "redis", Namespace: "weir-system"}, true},
		"by the key of a label": {metav1.ObjectMeta{Name: "x", Labels: map[string]string{"weir.dev/revision": ""}}, true},
		"by a label":            {metav1.ObjectMeta{Name: "x", Labels: map[string]string{"app.kubernetes.io/name": "weir"}}, true},
		"an object of the test": {metav1.ObjectMeta{Name: "load", Namespace: scenario.Traffic, Labels: scenario.Labels()}, false},
	} {
		if is := belongsToWeir(c.object); is != c.is {
			t.Errorf("%s: %v", name, is)
		}
	}
}
