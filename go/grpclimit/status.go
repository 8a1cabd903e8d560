package grpclimit

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/weir-dev/weir/go/httplimit"
	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/reply"
)

// unavailableRetry is the retry delay of a call without a decision, as over HTTP.
const unavailableRetry = time.Second

// statusOf is the status of a call that is not served because of err, an error of a Gate.
func statusOf(err error) error {
	refusal, ok := errors.AsType[*httplimit.RefusalError](err)
	if !ok {
		return status.FromContextError(err).Err()
	}
	code, text := codeOf(refusal.Problem.Status), refusal.Problem.Detail
	var details []protoadapt.MessageV1
	switch code {
	case codes.ResourceExhausted:
		details = denial(&refusal.Answer)
		if own := refusal.Answer.Denial(); own != nil {
			text = cmp.Or(own.Message, text)
		}
	case codes.Unavailable:
		details = []protoadapt.MessageV1{&errdetails.RetryInfo{RetryDelay: durationpb.New(unavailableRetry)}}
	default:
	}
	text = reply.GRPCMessage(text)
	detailed, err := status.New(code, text).WithDetails(details...)
	if err != nil { // impossible with these details
		return status.Error(code, text)
	}
	return detailed.Err()
}

func codeOf(httpStatus int) codes.Code {
	switch httpStatus {
	case http.StatusTooManyRequests:
		return codes.ResourceExhausted
	case http.StatusServiceUnavailable:
		return codes.Unavailable
	case http.StatusRequestHeaderFieldsTooLarge:
		return codes.InvalidArgument
	default:
		return codes.Internal
	}
}

// maxQuotas is the size of the limits in a status, in bytes. One has at most 1 KiB. The status is sent as base64 in a header: see reply.GRPCMessage.
const maxQuotas = 2048

// denial returns the details of a denial: when to retry, if a retry can succeed, and the limits that deny the call, the strictest first.
func denial(a *httplimit.Answer) []protoadapt.MessageV1 {
	var details []protoadapt.MessageV1
	if r := a.Strictest(); r != nil && r.RetryAfter != limiter.Never {
		details = append(details, &errdetails.RetryInfo{RetryDelay: durationpb.New(r.RetryAfter)})
	}
	quotas, size := &errdetails.QuotaFailure{}, 0
	for i := range a.Results {
		r := &a.Results[i]
		if r.Allowed || r.Rule.Shadow {
			continue
		}
		v := violation(r)
		if size += proto.Size(v); size > maxQuotas {
			break
		}
		quotas.Violations = append(quotas.Violations, v)
	}
	return append(details, quotas)
}

func violation(r *httplimit.Result) *errdetails.QuotaFailure_Violation {
	description := fmt.Sprintf("over the limit of %s: %d per %v", r.Rule.Policy, r.Decision.Limit, r.Window)
	if r.Missing != "" {
		description = r.Rule.Policy + " requires the " + r.Missing
	}
	return &errdetails.QuotaFailure_Violation{
		Subject:     strings.ToLower(r.Rule.Axis) + ":" + reply.ClipIdentifier(r.Identifier),
		Description: description,
		QuotaId:     r.Rule.Policy,
		QuotaValue:  r.Decision.Limit,
	}
}
