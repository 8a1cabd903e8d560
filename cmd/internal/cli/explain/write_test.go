package explain

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
)

func review(t *testing.T, w Write, object string) *admissionv1.AdmissionRequest {
	t.Helper()
	text, err := w.Review([]byte(object))
	if err != nil {
		t.Fatal(err)
	}
	var r admissionv1.AdmissionReview
	if err := json.Unmarshal(text, &r); err != nil {
		t.Fatal(err)
	}
	return r.Request
}

func TestReview_DescribesTheWriteAsAPIServersDo(t *testing.T) {
	const network = "---\napiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: deny, namespace: shop}\nspec: {podSelector: {}}\n"
	got := review(t, Write{Operation: "UPDATE", User: "system:serviceaccount:shop:ci", Groups: []string{"dev"}}, network)
	if got.Resource.Resource != "networkpolicies" || got.Resource.Group != "networking.k8s.io" || got.Kind.Kind != "NetworkPolicy" ||
		got.Namespace != "shop" || got.Name != "deny" || got.Operation != "UPDATE" || !strings.Contains(string(got.Object.Raw), "podSelector") {
		t.Errorf("%+v", got)
	}
	want := []string{"dev", "system:serviceaccounts", "system:serviceaccounts:shop", "system:authenticated"}
	if diff := cmp.Diff(want, got.UserInfo.Groups); diff != "" {
		t.Error(diff)
	}

	got = review(t, Write{Operation: "DELETE", User: "alice", Namespace: "blog", Resource: "policies", Subresource: "status"}, network)
	if got.Namespace != "blog" || got.Resource.Resource != "policies" || got.SubResource != "status" || got.Object.Raw != nil || got.OldObject.Raw == nil {
		t.Errorf("%+v", got)
	}
	if diff := cmp.Diff([]string{"system:authenticated"}, got.UserInfo.Groups); diff != "" {
		t.Error(diff)
	}

	got = review(t, Write{Operation: "CREATE", User: "alice"}, `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"shop"}}`)
	if got.Namespace != "shop" || got.Resource.Resource != "namespaces" {
		t.Errorf("%+v", got)
	}
}

func TestReview_RejectsWhatIsNotOneObject(t *testing.T) {
	for object, want := range map[string]string{
		"kind: Pod":                      "must have apiVersion and kind",
		"a: [":                           "read the object",
		"apiVersion: v1\n---\nkind: Pod": "more than one object",
	} {
		if _, err := (Write{}).Review([]byte(object)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", object, err, want)
		}
	}
}
