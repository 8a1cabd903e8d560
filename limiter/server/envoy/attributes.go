package envoy

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/weir-dev/weir/limiter/clientip"
	"github.com/weir-dev/weir/limiter/engine"
	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/limiter/server/envoy/wire"
)

const (
	// domainExtension is the context extension with the domain.
	domainExtension = "domain"
	// principalClaim is the claim for the principal of the peer certificate.
	principalClaim = "principal"
)

// parseAttributes returns the check for an authorization request, and the routes to which it can belong. The check is that of the first one. The
// error has the code INVALID_ARGUMENT and names the field: only the configuration of Envoy can cause it.
func (d *authEndpoint) parseAttributes(a *wire.AuthRequest) (engine.Check, []route, error) {
	headers, repeated := requestHeaders(a)
	host := rules.NormalHost(a.Host)
	routes, tooMany := d.routes(a, headers)
	if tooMany {
		return engine.Check{}, nil, errAmbiguousRoute
	}
	first := routes[:min(len(routes), 1)]
	domain := d.domain(a.Extensions, first)
	descriptors := descriptorsOf(a.Extensions, first, domain)
	switch {
	case len(domain) > maxDomain:
		return engine.Check{}, nil, invalid("the domain in attributes.context_extensions is longer than %d bytes", maxDomain)
	case len(descriptors) > 0 && len(descriptors[0]) > wire.MaxEntries:
		return engine.Check{}, nil, invalid("attributes.context_extensions has more than %d entries in addition to the domain", wire.MaxEntries)
	}
	client := d.client(a.Source.Address, headers)
	check := engine.Check{
		Request: rules.Request{
			Domain:          domain,
			Method:          a.Method,
			Host:            host,
			Headers:         headers,
			RepeatedHeaders: repeated,
			ClientIP:        client,
			InvalidClientIP: !client.IsValid() && a.Source.Address != "",
			Claims:          verifiedClaims(a),
			MissingClaims:   a.Defects&wire.DefectMetadata != 0,
			Descriptors:     descriptors,
		},
		Cost:    1,
		NoDelay: true,
	}
	check.Request.SetTarget(a.Path)
	check.Request.SetQuery(a.Path)
	return check, routes, nil
}

// domain returns the domain in the context extensions, else the namespace of the route, else the default domain. Only these come from the
// configuration of a gateway or of the limiter. A header comes from the client, who could choose a domain without limits. So does the host, but with
// a table of routes, the gateway sends the request to the route that is found by the host. Without all three, the result is empty, and only the
// policies for all domains apply: an error would deny every request of a gateway that cannot set context extensions.
func (d *authEndpoint) domain(extensions map[string]string, routes []route) string {
	namespace := ""
	if len(routes) > 0 {
		namespace = routes[0].namespace
	}
	domain := cmp.Or(extensions[domainExtension], namespace, d.defaultDomain)
	if domain == "" {
		d.noDomain.Do(func() {
			d.log.Warn("requests over ext_authz have no domain, so that only the policies of all domains apply; in the gateway, set the context extension " +
				"domain, or includeRouteMetadata of Envoy Gateway; or list the Gateway in spec.routeMatching of the Limiter; or set a default with " +
				"endpoints.grpc.defaultDomain of the Limiter or --grpc-default-domain")
		})
	}
	return domain
}

// requestHeaders returns the headers by their names in lower case, and the names of those with several lines, whichever of its two forms Envoy is
// configured to send. In one of them, Envoy has joined the lines.
func requestHeaders(a *wire.AuthRequest) (headers map[string]string, repeated []string) {
	if len(a.Lines) == 0 && allLower(a.Headers) {
		return a.Headers, nil
	}
	lines := make(map[string][]string, len(a.Headers)+len(a.Lines))
	add := func(name, value string) {
		name = strings.ToLower(name)
		lines[name] = append(lines[name], value)
	}
	for _, name := range slices.Sorted(maps.Keys(a.Headers)) {
		add(name, a.Headers[name])
	}
	for _, line := range a.Lines {
		add(line.Name, line.Value)
	}
	return rules.NormalHeaders(lines)
}

func allLower(headers map[string]string) bool {
	for name := range headers {
		if name != strings.ToLower(name) {
			return false
		}
	}
	return true
}

// client returns the address of the client. It is the zero Addr if it is unknown, for example if the peer has no IP socket.
func (d *authEndpoint) client(source string, headers map[string]string) netip.Addr {
	peer, _ := clientip.Parse(source)
	if d.clientIP == nil {
		return peer
	}
	return d.clientIP(peer, headers)
}

// verifiedClaims returns the claims that Envoy has verified: the claims of tokens, which the JWT filter stores under keys from its
// configuration, and the principal of the peer certificate as "principal". A token cannot set the claim "principal". If several
// tokens have the same claim, the token with the first key takes precedence.
func verifiedClaims(a *wire.AuthRequest) map[string]any {
	if len(a.Claims) == 0 && a.Source.Principal == "" {
		return nil
	}
	claims := map[string]any{}
	for _, key := range slices.Sorted(maps.Keys(a.Claims)) {
		payload, _ := a.Claims[key].(map[string]any)
		for name, value := range payload {
			if _, claimed := claims[name]; !claimed {
				claims[name] = value
			}
		}
	}
	delete(claims, principalClaim)
	if a.Source.Principal != "" {
		claims[principalClaim] = a.Source.Principal
	}
	return claims
}

// extensionDescriptor returns a descriptor with all context extensions except the domain, sorted by name; nil if the domain is the only one.
func extensionDescriptor(extensions map[string]string) []rules.Descriptor {
	others := len(extensions)
	if _, given := extensions[domainExtension]; given {
		others--
	}
	if others == 0 {
		return nil
	}
	descriptor := make(rules.Descriptor, 0, others)
	for _, key := range slices.Sorted(maps.Keys(extensions)) {
		if key != domainExtension {
			descriptor = append(descriptor, rules.Entry{Key: key, Value: extensions[key]})
		}
	}
	return []rules.Descriptor{descriptor}
}
