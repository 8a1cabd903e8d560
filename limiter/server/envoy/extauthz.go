package envoy

import (
	"context"
	"log/slog"
	"net/netip"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/weir-dev/weir/limiter/engine"
	"github.com/weir-dev/weir/limiter/reply"
)

// authEndpoint serves the external authorization filter of Envoy.
type authEndpoint struct {
	authv3.UnimplementedAuthorizationServer

	engine   *engine.Engine
	style    reply.Style
	log      *slog.Logger
	seconds  Observer
	clientIP func(peer netip.Addr, headers map[string]string) netip.Addr
	// errorResponse: see Options.
	errorResponse bool
	metadata      protowire.Number // of the field dynamic_metadata
}

func newAuthEndpoint(o *Options) *authEndpoint {
	return &authEndpoint{
		engine: o.Engine, style: o.Style, log: o.Log, seconds: o.ExtAuthzSeconds, clientIP: o.ClientIP, errorResponse: o.ErrorResponse,
		metadata: metadataField(&authv3.CheckResponse{}),
	}
}

// Check implements authv3.AuthorizationServer.
func (d *authEndpoint) Check(ctx context.Context, in *authv3.CheckRequest) (*authv3.CheckResponse, error) {
	began := time.Now()
	check, err := d.parseAttributes(in.GetAttributes())
	if err != nil {
		return nil, err
	}
	answer, err := d.engine.Check(ctx, &check)
	switch {
	case err == nil:
		out := d.response(&answer, began)
		observe(d.seconds, began)
		return out, nil
	case d.errorResponse && ctx.Err() == nil:
		return errorResponse(err), nil
	default:
		return nil, unavailable(ctx, err)
	}
}

// response converts an answer to a message of Envoy.
func (d *authEndpoint) response(a *engine.Answer, now time.Time) *authv3.CheckResponse {
	out := &authv3.CheckResponse{Status: &rpcstatus.Status{}}
	setMetadata(out, d.metadata, []engine.Answer{*a})
	fields, err := d.style.AppendFields(nil, a, now)
	if err != nil {
		d.log.Warn("a response has no rate-limit headers, because they cannot be formatted", "error", err)
	}
	if a.Allowed {
		out.HttpResponse = &authv3.CheckResponse_OkResponse{OkResponse: &authv3.OkHttpResponse{ResponseHeadersToAdd: options(fields)}}
		return out
	}
	problem := reply.Denied(a)
	out.Status.Code, out.Status.Message = int32(codes.ResourceExhausted), problem.Detail
	out.HttpResponse = &authv3.CheckResponse_DeniedResponse{DeniedResponse: problemResponse(problem, fields)}
	return out
}

// errorResponse reports that there is no decision. The failure mode of Envoy then allows or denies the request.
func errorResponse(err error) *authv3.CheckResponse {
	problem := reply.Unavailable(err)
	retryAfter := []reply.Field{{Name: "Retry-After", Lower: "retry-after", Value: "1"}} // as Problem.Write
	return &authv3.CheckResponse{
		Status:       &rpcstatus.Status{Code: int32(codes.Unavailable), Message: problem.Detail},
		HttpResponse: &authv3.CheckResponse_ErrorResponse{ErrorResponse: problemResponse(problem, retryAfter)},
	}
}

func problemResponse(problem *reply.Problem, fields []reply.Field) *authv3.DeniedHttpResponse {
	return &authv3.DeniedHttpResponse{
		Status:  &typev3.HttpStatus{Code: typev3.StatusCode(problem.Status)},
		Headers: options(append([]reply.Field{problemType()}, fields...)),
		Body:    string(problem.JSON()),
	}
}

// options returns options that set fields and overwrite existing ones.
func options(fields []reply.Field) []*corev3.HeaderValueOption {
	var list []*corev3.HeaderValueOption
	for _, header := range headers(fields) {
		list = append(list, &corev3.HeaderValueOption{Header: header, AppendAction: corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD})
	}
	return list
}
