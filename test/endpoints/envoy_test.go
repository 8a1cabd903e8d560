package endpoints_test

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	descriptorv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/weir-dev/weir/limiter/reply"
	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/limiter/server/envoy"
)

// serveEnvoy serves l on a socket until the test ends and returns a connection to it.
func serveEnvoy(t *testing.T, l *testLimiter) *grpc.ClientConn {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	clients := trust(t)
	s := envoy.NewServer(envoy.Options{
		Engine: l.engine, Style: reply.RateLimitHeaders, Log: quiet(),
		ClientIP: func(peer netip.Addr, headers map[string]string) netip.Addr {
			return clients.ClientOfSource(peer, http.Header{"X-Forwarded-For": {headers[forwardedFor]}})
		},
	})
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx, listener) }()
	conn, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = conn.Close() // all calls have ended
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return conn
}

// maxExactDigits is the maximum number of decimal digits that a float64 preserves. Numbers in Envoy metadata are float64.
const maxExactDigits = 15

func unsupportedByExtAuthz(r *row) string {
	switch {
	case r.cost != 1 || r.peek:
		return "a cost or a peek"
	case r.patient:
		return "waiting"
	case r.isAbsoluteURL():
		return "an absolute URL"
	case len(r.descriptors) > 1 || !isSorted(r.descriptors):
		return "descriptors that context extensions cannot express"
	case hasLongNumber(r.claims):
		return "a claim with a long number"
	default:
		return ""
	}
}

func isSorted(descriptors []rules.Descriptor) bool {
	for _, d := range descriptors {
		for i := 1; i < len(d); i++ {
			if d[i-1].Key >= d[i].Key {
				return false
			}
		}
	}
	return true
}

func hasLongNumber(text string) bool {
	return slices.ContainsFunc(strings.FieldsFunc(text, func(c rune) bool { return c < '0' || c > '9' }), func(digits string) bool {
		return len(digits) > maxExactDigits
	})
}

// openExtAuthz sends requests as the ext_authz filter of Envoy does.
func openExtAuthz(t *testing.T, l *testLimiter) sender {
	client := authv3.NewAuthorizationClient(serveEnvoy(t, l))
	return func(t *testing.T, r *row) result {
		t.Helper()
		answer, err := client.Check(t.Context(), &authv3.CheckRequest{Attributes: attributes(t, r)})
		if err != nil {
			t.Fatalf("line %d: %s: %v", r.line, r.sentence, err)
		}
		options := answer.GetOkResponse().GetResponseHeadersToAdd()
		if answer.GetDeniedResponse() != nil {
			options = answer.GetDeniedResponse().GetHeaders()
		}
		fields := http.Header{}
		for _, o := range options {
			fields[o.GetHeader().GetKey()] = append(fields[o.GetHeader().GetKey()], o.GetHeader().GetValue())
		}
		return result{
			allowed: answer.GetOkResponse() != nil, fields: fields, outcomes: metadataOutcomes(answer.GetDynamicMetadata()), anonymous: true,
			text: protojson.Format(answer),
		}
	}
}

// attributes returns the row as Envoy sends it, with pseudo-headers.
func attributes(t *testing.T, r *row) *authv3.AttributeContext {
	t.Helper()
	a := &authv3.AttributeContext{
		ContextExtensions: map[string]string{"domain": r.domain},
		Request: &authv3.AttributeContext_Request{Http: &authv3.AttributeContext_HttpRequest{
			Method: r.method, Host: r.host, Path: r.target,
		}},
		Source: &authv3.AttributeContext_Peer{},
	}
	for _, d := range r.descriptors {
		for _, e := range d {
			a.ContextExtensions[e.Key] = e.Value
		}
	}
	if r.peer().IsValid() {
		a.Source.Address = &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{Address: r.peer().String()}}}
	}
	headers := []header{{":method", r.method}, {":authority", r.host}, {":path", r.target}, {forwardedFor, r.forwardedFor()}}
	for _, h := range r.headers {
		if !strings.EqualFold(h.name, forwardedFor) {
			headers = append(headers, h)
		}
	}
	writeHeaders(a.GetRequest().GetHttp(), headers, r.repeatsHeaders() || !r.isText())
	if r.claims != "" {
		payload := &structpb.Struct{}
		if err := protojson.Unmarshal([]byte(r.claims), payload); err != nil {
			t.Fatal(err)
		}
		a.MetadataContext = &corev3.Metadata{FilterMetadata: map[string]*structpb.Struct{
			"envoy.filters.http.jwt_authn": {Fields: map[string]*structpb.Value{"payload": structpb.NewStructValue(payload)}},
		}}
	}
	return a
}

// writeHeaders writes headers as Envoy does. raw is for encode_raw_headers, which supports repeated headers and values that are not UTF-8.
func writeHeaders(h *authv3.AttributeContext_HttpRequest, headers []header, raw bool) {
	if raw {
		h.HeaderMap = &corev3.HeaderMap{}
		for _, x := range headers {
			h.HeaderMap.Headers = append(h.HeaderMap.Headers, &corev3.HeaderValue{Key: x.name, RawValue: []byte(x.value)})
		}
		return
	}
	h.Headers = map[string]string{}
	for _, x := range headers {
		h.Headers[x.name] = x.value
	}
}

// metadataOutcomes returns the outcomes of all descriptors in the dynamic metadata.
func metadataOutcomes(m *structpb.Struct) []outcome {
	outcomes := []outcome{}
	for _, d := range m.GetFields()["descriptors"].GetListValue().GetValues() {
		for _, p := range d.GetStructValue().GetFields()["policies"].GetListValue().GetValues() {
			f := p.GetStructValue().GetFields()
			outcomes = append(outcomes, outcome{
				Policy: f["policy"].GetStringValue(), Tier: f["tier"].GetStringValue(), Shadow: f["shadow"].GetBoolValue(),
				Allowed: f["result"].GetStringValue() == "OK",
			})
		}
	}
	return outcomes
}

func unsupportedByRateLimit(r *row) string {
	switch {
	case r.isHTTP():
		return "an HTTP request"
	case len(r.headers) > 0 || r.claims != "":
		return "headers and claims"
	case r.patient:
		return "waiting"
	default:
		return ""
	}
}

// openRateLimit sends requests as the rate limit filter of Envoy does.
func openRateLimit(t *testing.T, l *testLimiter) sender {
	client := ratelimitv3.NewRateLimitServiceClient(serveEnvoy(t, l))
	return func(t *testing.T, r *row) result {
		t.Helper()
		request := &ratelimitv3.RateLimitRequest{Domain: r.domain, HitsAddend: uint32(r.cost)}
		for _, d := range r.descriptors {
			descriptor := &descriptorv3.RateLimitDescriptor{}
			for _, e := range d {
				descriptor.Entries = append(descriptor.Entries, &descriptorv3.RateLimitDescriptor_Entry{Key: e.Key, Value: e.Value})
			}
			if r.peek {
				descriptor.HitsAddend = wrapperspb.UInt64(0)
			}
			request.Descriptors = append(request.Descriptors, descriptor)
		}
		answer, err := client.ShouldRateLimit(t.Context(), request)
		if err != nil {
			t.Fatalf("line %d: %s: %v", r.line, r.sentence, err)
		}
		fields := http.Header{}
		for _, h := range answer.GetResponseHeadersToAdd() {
			fields[h.GetKey()] = append(fields[h.GetKey()], h.GetValue())
		}
		return result{
			allowed: answer.GetOverallCode() == ratelimitv3.RateLimitResponse_OK, fields: fields,
			outcomes: metadataOutcomes(answer.GetDynamicMetadata()), anonymous: true, text: protojson.Format(answer) + string(answer.GetRawBody()),
		}
	}
}
