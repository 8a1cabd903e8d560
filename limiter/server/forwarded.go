package server

import (
	"net/http"
	"strings"

	"github.com/weir-dev/weir/limiter/reply"
	"github.com/weir-dev/weir/limiter/rules"
)

// The two families of headers in which proxies say what they ask for, spelled as in http.Header.
const (
	forwardedMethod = "X-Forwarded-Method" // Traefik, Caddy
	forwardedURI    = "X-Forwarded-Uri"
	forwardedHost   = "X-Forwarded-Host"
	originalMethod  = "X-Original-Method" // nginx
	originalURI     = "X-Original-Uri"
	originalURL     = "X-Original-Url" // ingress-nginx
)

// forwardedRequest returns the request that a proxy asks for, but for what it has to be told: domain, claims and client.
//
// A proxy overwrites the headers that it writes and passes on all others as the client sent them. So one family counts, and a
// question with headers of both is refused: one of them is the client's, and nobody knows which.
func forwardedRequest(r *http.Request) (rules.Request, *reply.Problem) {
	h := r.Header
	forwarded := has(h, forwardedURI) || has(h, forwardedMethod)
	original := has(h, originalURI) || has(h, originalURL) || has(h, originalMethod)
	var (
		request rules.Request
		target  string
		bad     *reply.Problem
	)
	switch {
	case forwarded && original:
		return request, badField(originalURI, "and "+forwardedURI+" cannot both be the proxy's: let it remove the headers that it does not set")
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
	request.Path = rules.NormalPath(target)
	request.Query = rules.ParseQuery(target)
	request.Headers = rules.NormalHeaders(h)
	return request, nil
}

// fromForwardedHeaders reads X-Forwarded-Method, -Uri and -Host.
func fromForwardedHeaders(r *http.Request) (method, host, target string, bad *reply.Problem) {
	if target, bad = one(r.Header, forwardedURI); bad != nil {
		return "", "", "", bad
	}
	if method, bad = one(r.Header, forwardedMethod); bad != nil {
		return "", "", "", bad
	}
	if !has(r.Header, forwardedHost) {
		return method, r.Host, target, nil
	}
	host, bad = one(r.Header, forwardedHost)
	if bad == nil && strings.Contains(host, ",") {
		bad = badField(forwardedHost, "names several hosts")
	}
	return method, host, target, bad
}

// fromNginxHeaders reads X-Original-Method and -URI, and Host; or -URL, which holds the host.
func fromNginxHeaders(r *http.Request) (method, host, target string, bad *reply.Problem) {
	name := originalURI
	if has(r.Header, originalURL) {
		if name = originalURL; has(r.Header, originalURI) {
			return "", "", "", badField(originalURI, "and "+originalURL+" cannot both be the proxy's")
		}
	}
	if target, bad = one(r.Header, name); bad != nil {
		return "", "", "", bad
	}
	if method, bad = one(r.Header, originalMethod); bad != nil {
		return "", "", "", bad
	}
	if name == originalURL {
		if host, _, absolute := splitAbsolute(target); absolute && host != "" {
			return method, host, target, nil
		}
	}
	return method, r.Host, target, nil
}

func has(h http.Header, name string) bool {
	for _, value := range h[name] {
		if value != "" {
			return true
		}
	}
	return false
}

// one returns the value of a header that proxies set, and so is there once.
func one(h http.Header, name string) (string, *reply.Problem) {
	values := h[name]
	switch {
	case len(values) > 1:
		return "", badField(name, "is given twice: let the proxy replace the client's")
	case !has(h, name):
		return "", badField(name, "is missing: a proxy says in it what it asks for")
	}
	return values[0], nil
}

// splitAbsolute splits https://api.shop.example/v1/search?q=x, which clients may send to a proxy as well as /v1/search?q=x.
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
