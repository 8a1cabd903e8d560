package server

import (
	"net/http"
	"strings"

	"github.com/weir-dev/weir/limiter/reply"
	"github.com/weir-dev/weir/limiter/rules"
)

// The two families of headers in which proxies describe the original request, spelled as in http.Header.
const (
	forwardedMethod = "X-Forwarded-Method" // Traefik, Caddy
	forwardedURI    = "X-Forwarded-Uri"
	forwardedHost   = "X-Forwarded-Host"
	originalMethod  = "X-Original-Method" // nginx
	originalURI     = "X-Original-Uri"
	originalURL     = "X-Original-Url" // ingress-nginx
)

// forwardedRequest reads the original request from the headers that the proxy sets. The caller adds domain, claims and client.
//
// A proxy overwrites the headers that it sets and forwards all others as the client sent them. A request with headers of both
// families is therefore rejected: one family comes from the client, and nothing shows which one.
func forwardedRequest(r *http.Request) (rules.Request, *reply.Problem) {
	h := r.Header
	forwarded := hasValue(h, forwardedURI) || hasValue(h, forwardedMethod)
	original := hasValue(h, originalURI) || hasValue(h, originalURL) || hasValue(h, originalMethod)
	var (
		request rules.Request
		target  string
		bad     *reply.Problem
	)
	switch {
	case forwarded && original:
		return request, badField(originalURI, "and "+forwardedURI+
			" are both present, and only one can come from the proxy: configure the proxy to remove the headers that it does not set")
	case original:
		request.Method, request.Host, target, bad = fromNginxHeaders(r)
	default:
		request.Method, request.Host, target, bad = fromForwardedHeaders(r)
	}
	if bad != nil {
		return rules.Request{}, bad
	}
	if _, inner, absolute := splitAbsolute(target); absolute {
		target = inner
	}
	request.Host = rules.NormalHost(request.Host)
	request.SetTarget(target)
	request.SetQuery(target)
	request.Headers, request.RepeatedHeaders = rules.NormalHeaders(h)
	return request, nil
}

// fromForwardedHeaders reads X-Forwarded-Method, -Uri and -Host.
func fromForwardedHeaders(r *http.Request) (method, host, target string, bad *reply.Problem) {
	if target, bad = singleValue(r.Header, forwardedURI); bad != nil {
		return "", "", "", bad
	}
	if method, bad = singleValue(r.Header, forwardedMethod); bad != nil {
		return "", "", "", bad
	}
	if !hasValue(r.Header, forwardedHost) {
		return method, r.Host, target, nil
	}
	host, bad = singleValue(r.Header, forwardedHost)
	if bad == nil && strings.Contains(host, ",") {
		bad = badField(forwardedHost, "contains more than one host")
	}
	return method, host, target, bad
}

// fromNginxHeaders reads X-Original-Method, X-Original-URI and Host, or X-Original-URL, which includes the host.
func fromNginxHeaders(r *http.Request) (method, host, target string, bad *reply.Problem) {
	name := originalURI
	if hasValue(r.Header, originalURL) {
		if name = originalURL; hasValue(r.Header, originalURI) {
			return "", "", "", badField(originalURI, "and "+originalURL+" are both present: configure the proxy to set one and remove the other")
		}
	}
	if target, bad = singleValue(r.Header, name); bad != nil {
		return "", "", "", bad
	}
	if method, bad = singleValue(r.Header, originalMethod); bad != nil {
		return "", "", "", bad
	}
	if name == originalURL {
		if host, _, absolute := splitAbsolute(target); absolute && host != "" {
			return method, host, target, nil
		}
	}
	return method, r.Host, target, nil
}

// hasValue reports whether a header has a value that is not empty.
func hasValue(h http.Header, name string) bool {
	for _, value := range h[name] {
		if value != "" {
			return true
		}
	}
	return false
}

// singleValue returns the value of a header that the proxy sets. The header must be present exactly once.
func singleValue(h http.Header, name string) (string, *reply.Problem) {
	values := h[name]
	switch {
	case len(values) > 1:
		return "", badField(name, "is present more than once: configure the proxy to replace the header of the client")
	case !hasValue(h, name):
		return "", badField(name, "is missing: configure the proxy to describe the original request in this header")
	}
	return values[0], nil
}

// splitAbsolute splits an absolute target such as https://api.shop.example/v1/search?q=x into host and path with query. A client
// can send an absolute target to a proxy instead of /v1/search?q=x.
func splitAbsolute(target string) (host, inner string, absolute bool) {
	scheme, inner, found := strings.Cut(target, ":")
	if !found || !strings.EqualFold(scheme, "http") && !strings.EqualFold(scheme, "https") {
		return "", "", false
	}
	if rest, named := strings.CutPrefix(inner, "//"); named {
		end := strings.IndexAny(rest, "/?#")
		if end < 0 {
			end = len(rest)
		}
		host, inner = rest[:end], rest[end:]
	}
	return host, inner, true
}
