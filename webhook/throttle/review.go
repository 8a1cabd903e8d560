package throttle

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	admissionv1 "k8s.io/api/admission/v1"

	"github.com/weir-dev/weir/limiter/reply"
	"github.com/weir-dev/weir/limiter/rules"
)

const (
	// maxBody is more than an API server can send, in bytes: the object that is to be, of the 3 MiB that it takes, the one that is, of
	// the 1.5 MiB that etcd takes, and what stands around them. JSON makes six bytes of some: "<" is sent as "\u003c".
	maxBody = 32 << 20
	// defaultTimeout is an API server's own, which it always tells.
	defaultTimeout = 10 * time.Second
	// share of the timeout, in percent, within which an answer is on its way: the API server's clock began earlier, and it
	// tells whole seconds, rounded up.
	decisionPercent = 80
)

// MaxStoreTimeout is the longest that a store may take to answer. A decision may have to ask it twice, and is then within the share of the
// two seconds for which API servers that the operator has told of a limiter wait.
const MaxStoreTimeout = 750 * time.Millisecond

// readBody reads what r asks into buffer.
func readBody(r *http.Request, buffer *bytes.Buffer) *reply.Problem {
	if r.ContentLength > maxBody {
		return badBody(fmt.Sprintf("is larger than %d bytes", maxBody))
	}
	if r.ContentLength > 0 {
		buffer.Grow(int(r.ContentLength) + bytes.MinRead) // once
	}
	if _, err := buffer.ReadFrom(io.LimitReader(r.Body, maxBody+1)); err != nil {
		return badBody("ended early") // the error itself may name addresses
	}
	if buffer.Len() > maxBody {
		return badBody(fmt.Sprintf("is larger than %d bytes", maxBody))
	}
	return nil
}

// decode reads an AdmissionReview. Its objects stay JSON, of their own memory: body can be used again.
func decodeReview(body []byte) (*admissionv1.AdmissionRequest, *reply.Problem) {
	var review admissionv1.AdmissionReview
	if err := json.Unmarshal(body, &review); err != nil {
		return nil, badBody("is no AdmissionReview: " + clip(err.Error(), maxMessage))
	}
	want := admissionv1.SchemeGroupVersion.String()
	switch {
	case review.Kind != "AdmissionReview" || review.APIVersion != want:
		return nil, badBody(fmt.Sprintf("is %q of %q, not AdmissionReview of %s", clip(review.Kind, maxName), clip(review.APIVersion, maxName), want))
	case review.Request == nil:
		return nil, badBody("holds no request")
	case review.Request.UID == "":
		return nil, badBody("holds a request without a uid")
	}
	return review.Request, nil
}

func badBody(is string) *reply.Problem {
	return reply.NewProblem(http.StatusBadRequest, "body", "the body "+is)
}

// requestOf is the write that in asks about, as rules match it.
func toRequest(in *admissionv1.AdmissionRequest) rules.Request {
	write := &rules.KubernetesRequest{
		Operation: string(in.Operation),
		Group:     in.Resource.Group, Version: in.Resource.Version, Resource: in.Resource.Resource, Subresource: in.SubResource,
		Kind: in.Kind.Kind, Namespace: namespaceOf(in), Name: in.Name,
		User: in.UserInfo.Username, Groups: in.UserInfo.Groups,
		DryRun: isDryRun(in),
		Object: in.Object.Raw, OldObject: in.OldObject.Raw, Options: in.Options.Raw,
	}
	if len(in.UserInfo.Extra) > 0 {
		write.Extra = make(map[string][]string, len(in.UserInfo.Extra))
		for key, values := range in.UserInfo.Extra {
			write.Extra[key] = values
		}
	}
	return rules.Request{Domain: write.Namespace, Kubernetes: write}
}

// namespaceOf is that of the object. A Namespace is in none, though an API server tells its own name.
func namespaceOf(in *admissionv1.AdmissionRequest) string {
	if in.Resource.Group == "" && in.Resource.Resource == "namespaces" {
		return ""
	}
	return in.Namespace
}

func isDryRun(in *admissionv1.AdmissionRequest) bool { return in.DryRun != nil && *in.DryRun }

// within is for how long a decision may take, of the timeout that an API server tells with its question: "?timeout=2s".
func decisionTimeout(r *http.Request) time.Duration {
	timeout := defaultTimeout
	if r.URL.RawQuery != "" {
		if told, err := time.ParseDuration(r.URL.Query().Get("timeout")); err == nil && told > 0 {
			timeout = min(told, defaultTimeout)
		}
	}
	return timeout / 100 * decisionPercent
}
