package envoy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"golang.org/x/time/rate"
	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/weir-dev/weir/limiter/engine"
	"github.com/weir-dev/weir/limiter/overload"
	"github.com/weir-dev/weir/limiter/reply"
	"github.com/weir-dev/weir/limiter/server/envoy/wire"
	"github.com/weir-dev/weir/limiter/tracing"
)

// authEndpoint serves the external authorization filter of Envoy.
type authEndpoint struct {
	engine   *engine.Engine
	style    reply.Style
	log      *slog.Logger
	seconds  Observer
	gate     *overload.Endpoint
	failures Failures
	clientIP func(peer netip.Addr, headers map[string]string) netip.Addr
	// errorResponse and defaultDomain: see Options.
	errorResponse bool
	defaultDomain string
	noDomain      rate.Sometimes   // limits the log lines about requests without a domain
	metadata      protowire.Number // of the field dynamic_metadata
	tracer        *tracing.Tracer
}

func newAuthEndpoint(o *Options) *authEndpoint {
	return &authEndpoint{
		engine: o.Engine, style: o.Style, log: o.Log, seconds: o.ExtAuthzSeconds, gate: o.ExtAuthzGate,
		failures: cmp.Or[Failures](o.ExtAuthzFailures, uncounted{}),
		clientIP: o.ClientIP, errorResponse: o.ErrorResponse, defaultDomain: o.DefaultDomain, noDomain: rate.Sometimes{First: 1, Interval: logInterval},
		metadata: metadataField(&authv3.CheckResponse{}), tracer: o.Tracer,
	}
}

// serve decides a message, and appends the response to out.
func (d *authEndpoint) serve(ctx context.Context, message, out []byte) (response []byte, code uint32, err error) {
	var in wire.AuthRequest
	if err := in.Decode(message); err != nil {
		d.failures.Invalid()
		err = malformed(err)
		return nil, uint32(status.Code(err)), err
	}
	checked, err := d.check(ctx, &in)
	if err != nil {
		return nil, uint32(status.Code(err)), err
	}
	out, err = proto.MarshalOptions{}.MarshalAppend(out, checked)
	if err != nil {
		return nil, uint32(codes.Internal), fmt.Errorf("marshal the response: %w", err)
	}
	return out, uint32(checked.GetStatus().GetCode()), nil
}

// check decides a request.
func (d *authEndpoint) check(ctx context.Context, in *wire.AuthRequest) (*authv3.CheckResponse, error) {
	began := time.Now()
	check, routes, err := d.parseAttributes(in)
	if errors.Is(err, errAmbiguousRoute) {
		d.failures.Invalid()
		return ambiguous(), nil
	}
	if err != nil {
		d.failures.Invalid()
		return nil, err
	}
	in.Defects.Each(d.failures.Defect)
	check.Endpoint = "ext_authz"
	ctx, span := startSpan(ctx, d.tracer, authMethod, "ext_authz", began)
	answer, err := d.decide(ctx, &check, in.Extensions, routes)
	d.gate.Failed(err)
	if err != nil {
		d.failures.Unavailable(err)
	}
	switch {
	case err == nil:
		out := d.response(&answer, isGRPC(check.Request.Headers), began, in.Defects)
		observe(d.seconds, span, began)
		endSpan(span, nil)
		return out, nil
	case d.errorResponse && ctx.Err() == nil:
		endSpan(span, unavailable(ctx, err)) // also if the status of the call is OK
		return errorResponse(err), nil
	default:
		err = unavailable(ctx, err)
		endSpan(span, err)
		return nil, err
	}
}

// response converts an answer to a message of Envoy. toGRPC is whether the client calls a gRPC service.
func (d *authEndpoint) response(a *engine.Answer, toGRPC bool, now time.Time, found wire.Defects) *authv3.CheckResponse {
	out := &authv3.CheckResponse{Status: &rpcstatus.Status{}}
	setMetadata(out, d.metadata, []engine.Answer{*a}, found)
	fields, err := d.style.AppendFields(nil, a, now)
	if err != nil {
		d.log.Warn("a response has no rate-limit headers, because they cannot be formatted", "error", err)
	}
	if a.Allowed {
		out.HttpResponse = &authv3.CheckResponse_OkResponse{OkResponse: &authv3.OkHttpResponse{ResponseHeadersToAdd: options(fields, d.joining())}}
		return out
	}
	denial := reply.NewDenial(a)
	out.Status.Code, out.Status.Message = int32(codes.ResourceExhausted), denial.Problem.Detail
	denied := deniedResponse(denial.Status, string(denial.AppendBody(nil)), append(denial.AppendFields(nil), fields...))
	if toGRPC {
		asGRPC(denied, denial.Text())
	}
	out.HttpResponse = &authv3.CheckResponse_DeniedResponse{DeniedResponse: denied}
	return out
}

// isGRPC reports whether Envoy answers a request with these headers in gRPC.
func isGRPC(headers map[string]string) bool {
	rest, found := strings.CutPrefix(headers["content-type"], "application/grpc")
	return found && (rest == "" || rest[0] == '+')
}

// asGRPC changes a denial to the one of a gRPC service. Without a status, Envoy derives UNAVAILABLE from 429, which clients retry. Envoy
// sends the body as the message, in the same header list as all fields of the denial.
func asGRPC(denied *authv3.DeniedHttpResponse, message string) {
	denied.Headers[0].Header = &corev3.HeaderValue{Key: "grpc-status", Value: strconv.Itoa(int(codes.ResourceExhausted))} // instead of the type
	denied.Body = reply.GRPCMessage(message)
}

// errorResponse reports that there is no decision. The failure mode of Envoy then allows or denies the request.
func errorResponse(err error) *authv3.CheckResponse {
	problem := reply.Unavailable(err)
	fields := []reply.Field{problemType(), {Name: "Retry-After", Lower: "retry-after", Value: "1"}} // as Problem.Write
	return &authv3.CheckResponse{
		Status:       &rpcstatus.Status{Code: int32(codes.Unavailable), Message: problem.Detail},
		HttpResponse: &authv3.CheckResponse_ErrorResponse{ErrorResponse: deniedResponse(problem.Status, string(problem.JSON()), fields)},
	}
}

func deniedResponse(status int, body string, fields []reply.Field) *authv3.DeniedHttpResponse {
	return &authv3.DeniedHttpResponse{
		Status:  &typev3.HttpStatus{Code: typev3.StatusCode(status)},
		Headers: options(fields, corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD),
		Body:    body,
	}
}

// joining returns how the fields of an allowed response join equal fields in it. The response has them if a later filter, for example
// that of RLS, has denied the request, or if the service has limits of its own. Lists then have both. Of the other fields the earlier
// ones stay: a denial must not show the limit of a policy that allowed the request.
func (d *authEndpoint) joining() corev3.HeaderValueOption_HeaderAppendAction {
	if d.style == reply.RateLimitHeaders {
		return corev3.HeaderValueOption_APPEND_IF_EXISTS_OR_ADD
	}
	return corev3.HeaderValueOption_ADD_IF_ABSENT
}

// options returns options that add fields.
func options(fields []reply.Field, action corev3.HeaderValueOption_HeaderAppendAction) []*corev3.HeaderValueOption {
	var list []*corev3.HeaderValueOption
	for _, header := range headers(fields) {
		list = append(list, &corev3.HeaderValueOption{Header: header, AppendAction: action})
	}
	return list
}

// errAmbiguousRoute is the error for a request that can belong to too many routes because of what the client sent, see routetable.TooMany.
var errAmbiguousRoute = errors.New("the route of the request is ambiguous")

// ambiguous denies a request with the status 400. An error of the call lets the failure mode of Envoy allow the request.
func ambiguous() *authv3.CheckResponse {
	detail := "the route of the request is ambiguous: a header that routes match is repeated, has many commas, or is too long"
	problem := reply.NewProblem(http.StatusBadRequest, "", detail)
	return &authv3.CheckResponse{
		Status:       &rpcstatus.Status{Code: int32(codes.InvalidArgument), Message: problem.Detail},
		HttpResponse: &authv3.CheckResponse_DeniedResponse{DeniedResponse: deniedResponse(problem.Status, string(problem.JSON()), []reply.Field{problemType()})},
	}
}
