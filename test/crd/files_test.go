package crd

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/policyfile"
)

// Whoever lints a file must learn what kubectl apply would have said, to the word.
func TestPolicyfile_RejectsWhatTheAPIServerRejects(t *testing.T) {
	n := newNamespace(t)
	loader, err := policyfile.NewLoader(compile.DefaultIdentity())
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range definitions() {
		for _, c := range d.cases() {
			for _, change := range []string{c.accepted, c.refused} {
				content, err := yaml.Marshal(n.object(t, d, change).Object)
				if err != nil {
					t.Fatal(err)
				}
				var got []string
				for _, p := range loader.Compile([]policyfile.File{{Name: "policy.yaml", Content: content}}).Problems {
					got = append(got, p.Field+": "+p.Message)
				}
				slices.Sort(got)
				if diff := cmp.Diff(causes(n.tryCreateOf(t, d, change)), got); diff != "" {
					t.Errorf("%s: %s (-API server +file):\n%s", d.kind, change, diff)
				}
			}
		}
	}
}

// causes are what the API server says of each field, sorted, without the postponed.
func causes(err error) []string {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return nil
	}
	var all []string
	for _, cause := range status.Status().Details.Causes {
		if cause.Type == metav1.CauseTypeFieldValueInvalid && strings.Contains(cause.Message, postponed) || isOfScale(cause.Field) {
			continue
		}
		field := cause.Field
		if field == "<nil>" {
			field = ""
		}
		all = append(all, field+": "+cause.Message)
	}
	slices.Sort(all)
	return all
}
