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
	// maxBody is more than an API server can send, in bytes: a new object of up to 3 MiB, the bound of an API server, an old object of up to
	// 1.5 MiB, the bound of etcd, and the other fields. JSON encodes some bytes as six: "<" is sent as "\u003c".
	maxBody = 32 << 20
	// defaultTimeout is the default of API servers. They always send a timeout.
	defaultTimeout = 10 * time.Second
	// decisionPercent is the part of the timeout, in percent, in which to respond. The timeout of the API server began earlier, and it is
	// sent in whole seconds, rounded up.
	decisionPercent = 80
)

// MaxStoreTimeout bounds the timeout of the store. A decision may need two calls to the store. With this bound it stays within
// decisionPercent of the two seconds that API servers wait according to the operator's webhook configuration.
const MaxStoreTimeout = 750 * time.Millisecond

// readBody reads the body of r into buffer.
func readBody(r *http.Request, buffer *bytes.Buffer) *reply.Problem {
	if r.ContentLength > maxBody {
		return badBody(fmt.Sprintf("is larger than %d bytes", maxBody))
	}
	if r.ContentLength > 0 {
		buffer.Grow(int(r.ContentLength) + bytes.MinRead) // one allocation
	}
	most := int64(maxBody)
	if r.ContentLength < 0 {
		most = maxPooled // a larger one would have to wait for memory, and it is unknown how much
	}
	if _, err := buffer.ReadFrom(io.LimitReader(r.Body, most+1)); err != nil {
		return badBody("ended early") // the error itself may contain addresses
	}
	switch {
	case int64(buffer.Len()) <= most:
		return nil
	case r.ContentLength < 0:
		return reply.NewProblem(http.StatusLengthRequired, "body",
			fmt.Sprintf("the body is larger than %d bytes and has no Content-Length; send Content-Length, as API servers do", maxPooled))
	default:
		return badBody(fmt.Sprintf("is larger than %d bytes", maxBody))
	}
}

// decodeReview decodes an AdmissionReview. Its objects stay JSON, and are copied: the caller can reuse body.
func decodeReview(body []byte) (*admissionv1.AdmissionRequest, *reply.Problem) {
	var review admissionv1.AdmissionReview
	if err := json.Unmarshal(body, &review); err != nil {
		return nil, badBody("is not an AdmissionReview: " + clip(err.Error(), maxMessage))
	}
	want := admissionv1.SchemeGroupVersion.String()
	switch {
	case review.Kind != "AdmissionReview" || review.APIVersion != want:
		return nil, badBody(fmt.Sprintf("is kind %q of version %q, must be AdmissionReview of %s",
			clip(review.Kind, maxName), clip(review.APIVersion, maxName), want))
	case review.Request == nil:
		return nil, badBody("has no request")
	case review.Request.UID == "":
		return nil, badBody("has a request without a uid")
	}
	return review.Request, nil
}

func badBody(problem string) *reply.Problem {
	return reply.NewProblem(http.StatusBadRequest, "body", "the body "+problem)
}

// toRequest converts the reviewed write to the request that rules match.
func toRequest(request *admissionv1.AdmissionRequest) rules.Request {
	write := &rules.KubernetesRequest{
		Operation: string(request.Operation),
		Group:     request.Resource.Group, Version: request.Resource.Version, Resource: request.Resource.Resource, Subresource: request.SubResource,
		Kind: request.Kind.Kind, Namespace: request.Namespace, Name: request.Name,
		User: request.UserInfo.Username, Groups: request.UserInfo.Groups,
		DryRun: isDryRun(request),
		Object: request.Object.Raw, OldObject: request.OldObject.Raw, Options: request.Options.Raw,
	}
	if len(request.UserInfo.Extra) > 0 {
		write.Extra = make(map[string][]string, len(request.UserInfo.Extra))
		for key, values := range request.UserInfo.Extra {
			write.Extra[key] = values
		}
	}
	return rules.KubernetesWrite(write)
}

func isDryRun(request *admissionv1.AdmissionRequest) bool {
	return request.DryRun != nil && *request.DryRun
}

// decisionTimeout returns how long a decision may take: a part of the timeout that the API server sends as "?timeout=2s".
func decisionTimeout(r *http.Request) time.Duration {
	timeout := defaultTimeout
	if r.URL.RawQuery != "" {
		if sent, err := time.ParseDuration(r.URL.Query().Get("timeout")); err == nil && sent > 0 {
			timeout = min(sent, defaultTimeout)
		}
	}
	return timeout / 100 * decisionPercent
}
