package rules_test

import (
	"strings"
	"testing"

	"github.com/weir-dev/weir/limiter/rules"
)

func TestValidateDenialHeaderName_RejectsHeadersThatActBeyondTheResponse(t *testing.T) {
	for _, name := range []string{
		"Clear-Site-Data", "Connection", "Content-Encoding", "Content-Length", "Content-Range", "content-type", "Date", "Grpc-Status", "Host",
		"Keep-Alive", "Proxy-Authenticate", "RateLimit", "RateLimit-Policy", "Rate-Limit", "X-RateLimit-Limit", "X-Rate-Limit-Limit", "Retry-After", "Server", "Set-Cookie",
		"Set-Cookie2", "Strict-Transport-Security", "TE", "Trailer", "Transfer-Encoding", "Upgrade", "X-Envoy-Ratelimited", "X-Weir-Decision",
		// A proxy acts on them.
		"X-Accel-Redirect", "X-Accel-Buffering", "X-Sendfile", "X-Send-File", "X-Lighttpd-Send-File", "X-LiteSpeed-Location", "X-Reproxy-URL", "X-Archive-Files",
		"X-Middleware-Rewrite", "X-Forwarded-Host", "X-Original-URL",
		// Clients keep them for the host, or follow them.
		"Alt-Svc", "NEL", "Report-To", "Reporting-Endpoints", "Public-Key-Pins", "Expect-CT", "Accept-CH", "Service-Worker-Allowed", "Refresh", "Location",
		"Access-Control-Max-Age",
		// Caches obey them.
		"Cache-Control", "Surrogate-Control", "CDN-Cache-Control", "Expires", "Age",
	} {
		if err := rules.ValidateDenialHeaderName(name); err == nil || !strings.Contains(err.Error(), name+" must not be set") {
			t.Errorf("%s: error %v", name, err)
		}
	}
	for _, name := range []string{"Access-Control-Allow-Origin", "Content-Language", "link", "Vary", "X-Reason", "X-Rate"} {
		if err := rules.ValidateDenialHeaderName(name); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestValidateDenialContentType_AllowsOnlyTextAndJSON(t *testing.T) {
	for contentType, valid := range map[string]bool{
		"text/plain": true, "text/plain; charset=utf-8": true, "Text/Plain;charset=UTF-8": true, "application/json": true,
		"application/json; charset=utf-8": true, "application/problem+json": true, "application/vnd.api+json": true,
		"text/html": false, "application/xhtml+xml": false, "image/svg+xml": false, "text/plain; charset=utf-7": false, "application/grpc": false,
		"multipart/x-mixed-replace; boundary=a": false, "message/http": false, "application/+json": false, "text/json": false,
		"application/json, text/html": false, "text/plain; charset=utf-8; x=y": false, "text/plain\n": false, "": false,
	} {
		if err := rules.ValidateDenialContentType(contentType); (err == nil) != valid {
			t.Errorf("%q: %v", contentType, err)
		}
	}
}
