package throttle

import (
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/engine"
	"github.com/weir-dev/weir/limiter/reply"
)

// Keys of audit annotations. API servers prefix them with the name of the webhook and a slash.
const (
	auditResult    = "result" // allowed, denied, unlimited, exempt, refused, undecided
	auditPolicy    = "policy" // the strictest policy
	auditLimit     = "limit"
	auditRemaining = "remaining"
	auditSource    = "source"
	auditShadow    = "shadow-denied" // comma-separated policies in shadow mode that would have denied
	auditCause     = "cause"
	auditTrace     = "trace-id" // of a write that is traced
)

// undecided is the result of a write that passes without a decision.
const undecided = "undecided"

// response converts an answer to an AdmissionResponse.
func (s *Settings) response(request *admissionv1.AdmissionRequest, a *engine.Answer) *admissionv1.AdmissionResponse {
	out := &admissionv1.AdmissionResponse{UID: request.UID, Allowed: a.Allowed, AuditAnnotations: audit(a)}
	strictest := a.Strictest()
	switch {
	case strictest == nil:
	case a.Allowed:
		out.Warnings = s.warnings(a)
	default:
		out.Result = &metav1.Status{
			Status: metav1.StatusFailure, Code: http.StatusTooManyRequests, Reason: metav1.StatusReasonTooManyRequests,
			Message: denial(a), Details: s.details(request, strictest.RetryAfter),
		}
	}
	return out
}

// allow returns a response that allows the write and records the reason in the audit log.
func allow(request *admissionv1.AdmissionRequest, result string) *admissionv1.AdmissionResponse {
	return &admissionv1.AdmissionResponse{UID: request.UID, Allowed: true, AuditAnnotations: map[string]string{auditResult: result}}
}

// failureResponse is for a write without a decision. It allows the write unless a policy refuses writes when its counters are unavailable.
func (s *Settings) failureResponse(request *admissionv1.AdmissionRequest, err error) *admissionv1.AdmissionResponse {
	const retryAfter = time.Second // as the other endpoints
	cause := reply.Unavailable(err).Detail
	out := allow(request, undecided)
	out.AuditAnnotations[auditCause] = cause
	if refused, ok := errors.AsType[*engine.RefusedError](err); ok {
		out.Allowed = false
		out.AuditAnnotations[auditResult], out.AuditAnnotations[auditPolicy] = "refused", refused.Policy
		out.Result = &metav1.Status{
			Status: metav1.StatusFailure, Code: http.StatusServiceUnavailable, Reason: metav1.StatusReasonServiceUnavailable,
			Message: cause, Details: s.details(request, retryAfter),
		}
	}
	return out
}

// statusOf returns the HTTP status that the client of a write gets, or 503 if a write passes without a decision.
func statusOf(out *admissionv1.AdmissionResponse) int {
	switch {
	case out.Result != nil:
		return int(out.Result.Code)
	case out.AuditAnnotations[auditResult] == undecided:
		return http.StatusServiceUnavailable
	default:
		return http.StatusOK
	}
}

// details describe the written object. They contain the wait if the client should wait for it.
func (s *Settings) details(request *admissionv1.AdmissionRequest, wait time.Duration) *metav1.StatusDetails {
	details := &metav1.StatusDetails{Name: request.Name, Group: request.Resource.Group, Kind: request.Kind.Kind}
	if wait <= s.retryAfter && s.retryAfter > 0 && !isController(request) {
		details.RetryAfterSeconds = int32(max(1, seconds(wait)))
	}
	return details
}

// audit returns the audit annotations. They do not repeat the user and the object, which the audit event contains.
func audit(a *engine.Answer) map[string]string {
	kept := map[string]string{auditResult: result(a)}
	if r := a.Strictest(); r != nil {
		kept[auditPolicy] = r.Rule.Policy
		kept[auditLimit] = strconv.FormatInt(r.Decision.Limit, 10)
		kept[auditRemaining] = strconv.FormatInt(r.Remaining, 10)
		kept[auditSource] = string(r.Source)
	}
	var shadow []string
	for i := range a.Results {
		if r := &a.Results[i]; r.Rule.Shadow && !r.Allowed {
			shadow = append(shadow, r.Rule.Policy)
		}
	}
	if len(shadow) > 0 {
		kept[auditShadow] = strings.Join(shadow, ",")
	}
	return kept
}

func result(a *engine.Answer) string {
	switch {
	case !a.Allowed:
		return "denied"
	case a.Strictest() == nil:
		return "unlimited"
	default:
		return "allowed"
	}
}

// denial states which limits the write exceeds, which identifier they count, when to retry, and what else to do.
func denial(a *engine.Answer) string {
	r := a.Strictest()
	text := "over the limit of policy " + r.Rule.Policy + ": " + describeLimit(r) + " for " + countedFor(r, maxName)
	switch {
	case r.Missing != "":
		text = "policy " + r.Rule.Policy + " denies " + countedFor(r, maxName)
	case r.RetryAfter == limiter.Never && r.Decision.Limit == 0:
		text += "; the limit is 0, so every such write is denied"
	case r.RetryAfter == limiter.Never:
		text += "; the write costs more than the limit ever allows"
	default:
		text += "; retry in " + reply.ShortDuration(time.Duration(max(1, seconds(r.RetryAfter)))*time.Second)
		if r.RetryAfter > r.Window && r.Rule.Algorithm.Traits().Windows > 1 {
			text += ", because " + string(r.Rule.Algorithm) + " also counts the previous window"
		}
	}
	var others []string
	for i := range a.Results[1:] {
		if other := &a.Results[1+i]; !other.Allowed && !other.Rule.Shadow {
			others = append(others, other.Rule.Policy)
		}
	}
	if len(others) > 0 {
		text += "; also over the limit of " + strings.Join(others, ", ")
	}
	advice := "to raise the limit, contact the owner of the policy"
	if own := a.Denial(); own != nil && own.Message != "" {
		advice = strings.Join(strings.Fields(own.Message), " ") // on one line
	}
	return clip(text+"; "+advice, maxMessage)
}
