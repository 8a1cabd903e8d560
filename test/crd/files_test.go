package crd

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/policyfile"
	"github.com/weir-dev/weir/internal/policyfile/apischema"
	"github.com/weir-dev/weir/internal/policyfile/hint"
)

// For each case, the schema of the linter must report the same fields and messages as kubectl apply, and the linter the same fields and these messages,
// with a hint. Old API servers describe the values in other words.
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
				got := admitted(t, schema, content)
				problems := loader.Compile([]policyfile.File{{Name: "policy.yaml", Content: content}}).Problems
				if diff := withHints(got, problems); diff != "" {
					t.Errorf("%s: %s: %s", k.kind, change, diff)
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

// admitted returns what the schema reports about an object, as "field: message".
func admitted(t *testing.T, schema *apischema.Schemas, content []byte) (all []string) {
	t.Helper()
	var object map[string]any
	asJSON, err := yaml.YAMLToJSON(content)
	if err == nil {
		err = json.UnmarshalCaseSensitivePreserveInts(asJSON, &object)
	}
	if err != nil {
		t.Fatal(err)
	}
	kind, _ := object["kind"].(string)
	schema.Admit(kind, object, func(field, message string) { all = append(all, field+": "+message) })
	return all
}

// withHints compares what the schema reports with the problems of the linter: these have the same message, perhaps with the value or a hint. The message
// about a type has other words, and further ones about the value of a wrong type are left out.
func withHints(reported []string, problems []policyfile.Problem) string {
	isAbout := func(message string, p *policyfile.Problem) bool {
		text := p.Field + ": " + p.Message
		return text == message || strings.HasPrefix(text, message+"; ") || isWithValue(message, p) ||
			hint.IsAboutType(message) && strings.HasPrefix(message, p.Field+": ") && strings.HasPrefix(p.Message, "must be of type ")
	}
	for i := range problems {
		if !slices.ContainsFunc(reported, func(message string) bool { return isAbout(message, &problems[i]) }) {
			return fmt.Sprintf("the schema does not report %s", problems[i])
		}
	}
	for _, message := range reported {
		field, _, _ := strings.Cut(message, ": ")
		ofType := slices.ContainsFunc(reported, func(other string) bool { return strings.HasPrefix(other, field+": ") && hint.IsAboutType(other) })
		if !slices.ContainsFunc(problems, func(p policyfile.Problem) bool { return isAbout(message, &p) || ofType && p.Field == field }) {
			return "the linter does not report " + message
		}
	}
	return ""
}

// isWithValue reports whether the message of a problem is that of a rule with the value before it. A rule of the whole object is about the field that its
// message begins with.
func isWithValue(message string, p *policyfile.Problem) bool {
	const invalid = "Invalid value: "
	field, reason, isInvalid := strings.Cut(message, ": "+invalid)
	given, hasValue := strings.CutPrefix(p.Message, invalid)
	value, after, found := strings.Cut(given, ": "+reason)
	return isInvalid && (field == p.Field || strings.HasPrefix(reason, p.Field+" ")) &&
		hasValue && found && value != "" && (after == "" || strings.HasPrefix(after, "; "))
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
