package h2

import (
	"context"
	"encoding/base64"
	"net/http"
	"strconv"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// refusal returns the response to a request that is no call of gRPC: a status of HTTP and one of gRPC, as grpc-go has them. The status of HTTP is
// 0 for a call.
func refusal(h *headerBlock) (code int, s *status.Status) {
	kind, hosts := "", 0
	for i := range h.fields {
		switch f := &h.fields[i]; f.Name {
		case "content-type":
			kind = f.Value
		case "host":
			hosts++
		case "grpc-timeout":
			code, s = refuseTimeout(f.Value)
		default:
			if strings.HasSuffix(f.Name, binarySuffix) && !isBinary(f.Value) {
				return http.StatusBadRequest, status.Newf(codes.Internal, "malformed binary metadata %q in header %q", f.Value, f.Name)
			}
		}
	}
	switch {
	case hosts > 1:
		return http.StatusBadRequest, status.New(codes.Internal, "a request must have one host")
	case !isGRPC(kind):
		return http.StatusUnsupportedMediaType, status.Newf(codes.InvalidArgument, "invalid gRPC request content-type %q", kind)
	case code == http.StatusBadRequest:
		return code, s
	case h.pseudo.authority == "" && hosts == 0:
		return http.StatusBadRequest, status.New(codes.Internal, "no host or :authority header present")
	case h.pseudo.method != http.MethodPost:
		return http.StatusMethodNotAllowed, status.Newf(codes.Internal, "Received a HEADERS frame with :method %q which should be POST", h.pseudo.method)
	}
	return code, s
}

func refuseTimeout(value string) (code int, s *status.Status) {
	switch timeout, valid := parseTimeout(value); {
	case !valid:
		return http.StatusBadRequest, status.Newf(codes.Internal, "malformed grpc-timeout: %q", value)
	case timeout == 0:
		return http.StatusOK, status.FromContextError(context.DeadlineExceeded)
	}
	return 0, nil
}

// earlyResponse returns the header block of a response to a refused request.
func earlyResponse(code int, s *status.Status) []byte {
	b := appendLiteral(nil, ":status", strconv.Itoa(code))
	return appendTrailer(appendLiteral(b, "content-type", "application/grpc"), s.Code(), s.Message())
}

// binarySuffix is that of the names of metadata that is encoded in base64.
const binarySuffix = "-bin"

// isBinary reports whether a value is base64, with or without padding.
func isBinary(value string) bool {
	if len(value)%4 == 0 {
		_, err := base64.StdEncoding.DecodeString(value)
		return err == nil
	}
	_, err := base64.RawStdEncoding.DecodeString(value)
	return err == nil
}

func isGRPC(contentType string) bool {
	rest, found := strings.CutPrefix(contentType, "application/grpc")
	return found && (rest == "" || rest[0] == '+' || rest[0] == ';')
}
