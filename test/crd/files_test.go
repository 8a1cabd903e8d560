package crd

import (
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/policyfile"
	"github.com/weir-dev/weir/internal/policyfile/apischema"
)

// For each case, the linter must report the same fields and messages as kubectl apply. Old API servers describe the values in other words.
func TestPolicyfile_RejectsWhatTheAPIServerRejects(t *testing.T) {
	n := newNamespace(t)
	schema, err := apischema.New()
	if err != nil {
		t.Fatal(err)
	}
	loader := policyfile.NewLoader(compile.DefaultIdentity(), schema)
	quotes := n.quotesValues(t)
	for _, k := range testedKinds() {
		for _, c := range k.cases() {
			for _, change := range []string{c.accepted, c.rejected} {
				content, err := yaml.Marshal(n.object(t, k, change).Object)
				if err != nil {
					t.Fatal(err)
				}
				var got []string
				for _, p := range loader.Compile([]policyfile.File{{Name: "policy.yaml", Content: content}}).Problems {
					got = append(got, p.Field+": "+p.Message)
				}
				want := rejectionCauses(n.tryCreateOf(t, k, change))
				if !quotes {
					got, want = withoutValues(got), withoutValues(want)
				}
				slices.Sort(got)
				slices.Sort(want)
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("%s: %s (-API server +file):\n%s", k.kind, change, diff)
				}
			}
		}
	}
}

// rejectionCauses returns the field and message of each cause of an API server error. It leaves out the notice that rules were not
// checked, and causes for the scale subresource.
func rejectionCauses(err error) []string {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return nil
	}
	var all []string
	for _, cause := range status.Status().Details.Causes {
		if cause.Type == metav1.CauseTypeFieldValueInvalid && strings.Contains(cause.Message, rulesNotChecked) || isScaleField(cause.Field) {
			continue
		}
		field := cause.Field
		if field == "<nil>" {
			field = ""
		}
		all = append(all, field+": "+cause.Message)
	}
	return all
}

// quotesValues reports whether the message of a failed CEL rule quotes the value, as later versions do. Others state only its type.
func (n namespace) quotesValues(t *testing.T) bool {
	t.Helper()
	err := n.tryCreate(t, `{spec: {window: 1w}}`)
	if err == nil || !strings.Contains(err.Error(), windowMessage) {
		t.Fatalf("an invalid window: %v", err)
	}
	return strings.Contains(err.Error(), `Invalid value: "1w"`)
}

// withoutValues removes values, which are quoted strings or numbers, from messages.
func withoutValues(messages []string) []string {
	value := regexp.MustCompile(`Invalid value: (("([^"\\]|\\.)*"|[0-9]+): )?`)
	without := make([]string, len(messages))
	for i, m := range messages {
		without[i] = value.ReplaceAllString(m, "")
	}
	return without
}
