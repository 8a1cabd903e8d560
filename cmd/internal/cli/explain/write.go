package explain

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"
)

// Write describes a write to the Kubernetes API.
type Write struct {
	// Operation is CREATE, UPDATE, DELETE or CONNECT.
	Operation string
	// Namespace replaces that of the object, unless it is empty.
	Namespace string
	// Resource of the object, such as "deployments". Empty derives it from the kind.
	Resource    string
	Subresource string
	User        string
	// Groups of the user. Those that every user has, and every service account, are added.
	Groups []string
}

// Review returns the AdmissionReview that an API server sends for the write of an object, as JSON. The object is YAML or JSON.
func (w Write) Review(object []byte) ([]byte, error) {
	documents := bytes.TrimPrefix(bytes.TrimSpace(object), []byte("---"))
	if bytes.Contains(documents, []byte("\n---")) {
		return nil, errors.New("the file has more than one object; explain them one by one")
	}
	text, err := yaml.YAMLToJSON(object)
	if err != nil {
		return nil, fmt.Errorf("read the object: %w", err)
	}
	var header metav1.PartialObjectMetadata
	if err := json.Unmarshal(text, &header); err != nil {
		return nil, fmt.Errorf("read the object: %w", err)
	}
	if header.APIVersion == "" || header.Kind == "" {
		return nil, errors.New("the object must have apiVersion and kind")
	}
	kind := header.GroupVersionKind()
	resource, _ := meta.UnsafeGuessKindToResource(kind)
	if w.Resource != "" {
		resource.Resource = w.Resource
	}
	namespace := header.Namespace
	if w.Namespace != "" {
		namespace = w.Namespace
	}
	if resource.Group == "" && resource.Resource == "namespaces" {
		namespace = header.Name // as API servers do
	}
	request := &admissionv1.AdmissionRequest{
		UID:       "weir-explain",
		Kind:      metav1.GroupVersionKind{Group: kind.Group, Version: kind.Version, Kind: kind.Kind},
		Resource:  metav1.GroupVersionResource{Group: resource.Group, Version: resource.Version, Resource: resource.Resource},
		Operation: admissionv1.Operation(w.Operation), SubResource: w.Subresource, Namespace: namespace, Name: header.Name,
		UserInfo: authenticationv1.UserInfo{Username: w.User, Groups: groupsOf(w.User, w.Groups)},
	}
	if w.Operation == string(admissionv1.Delete) {
		request.OldObject = runtime.RawExtension{Raw: text}
	} else {
		request.Object = runtime.RawExtension{Raw: text}
	}
	return json.Marshal(admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{Kind: "AdmissionReview", APIVersion: admissionv1.SchemeGroupVersion.String()}, Request: request,
	})
}

// groupsOf returns the groups that an API server adds to those of a user.
func groupsOf(user string, groups []string) []string {
	list := append([]string{}, groups...)
	if account, ok := strings.CutPrefix(user, "system:serviceaccount:"); ok {
		namespace, _, _ := strings.Cut(account, ":")
		list = append(list, "system:serviceaccounts", "system:serviceaccounts:"+namespace)
	}
	return append(list, "system:authenticated")
}
