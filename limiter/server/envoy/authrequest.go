package envoy

import "google.golang.org/protobuf/encoding/protowire"

// authRequest has the fields of an envoy.service.auth.v3.CheckRequest that the endpoint reads. The generated code rejects a message with a text that
// is not valid UTF-8, and allocates more than a hundred bytes for each empty element of a list.
type authRequest struct {
	source      peer
	destination peer
	method      string
	host, path  string
	headers     map[string]string
	lines       []headerLine // of header_map
	extensions  map[string]string
	claims      map[string]any // of jwtMetadata, by the key of the payload
	gateway     map[string]any // of gatewayMetadata of the route
	defects     defects

	// The values that were read of the claims and of the gateway. The bounds apply to each, so that the claims of a client do not displace its route.
	claimValues, gatewayValues int
}

// peer is an AttributeContext.Peer.
type peer struct {
	address   string // of an IP socket
	port      uint32
	principal string
}

// headerLine is a line of a header, as Envoy has received it.
type headerLine struct{ name, value string }

// The namespaces of the metadata that is read.
const (
	// jwtMetadata is the one in which the JWT filter of Envoy stores the claims of tokens.
	jwtMetadata = "envoy.filters.http.jwt_authn"
	// gatewayMetadata is the one in which Envoy Gateway names the route of a request, if includeRouteMetadata is set in its SecurityPolicy:
	// {resources: [{kind, namespace, name, sectionName}]}.
	gatewayMetadata = "envoy-gateway"
)

// Bounds of the metadata that is read. They are far more than the claims of a token. What is over them is left out.
const (
	maxMetadataValues = 4096
	maxMetadataDepth  = 32
)

// The field numbers of the messages of a request.
const (
	checkAttributes protowire.Number = 1

	attributesSource      protowire.Number = 1
	attributesDestination protowire.Number = 2
	attributesRequest     protowire.Number = 4
	attributesExtensions  protowire.Number = 10
	attributesMetadata    protowire.Number = 11
	attributesRoute       protowire.Number = 13

	peerAddress   protowire.Number = 1
	peerPrincipal protowire.Number = 4

	addressSocket   protowire.Number = 1
	addressPipe     protowire.Number = 2
	addressInternal protowire.Number = 3

	socketAddress   protowire.Number = 2
	socketPort      protowire.Number = 3
	socketNamedPort protowire.Number = 4

	requestHTTP protowire.Number = 2

	httpMethod    protowire.Number = 2
	httpHeaders   protowire.Number = 3
	httpPath      protowire.Number = 4
	httpHost      protowire.Number = 5
	httpHeaderMap protowire.Number = 13

	headerMapHeaders protowire.Number = 1
	headerRawValue   protowire.Number = 3

	filterMetadata protowire.Number = 1
)

// decode reads a message into r, which must be empty. As in generated code, the last value of a field applies, and a message that occurs again is
// merged, except for the value in an entry of a map.
func (r *authRequest) decode(message []byte) error {
	m := wire(message)
	return m.each(func(number protowire.Number, attributes wire) error {
		if number != checkAttributes {
			return nil
		}
		return attributes.each(r.attribute)
	})
}

func (r *authRequest) attribute(number protowire.Number, m wire) error {
	switch number {
	case attributesSource:
		return r.source.decode(m, &r.defects)
	case attributesDestination:
		return r.destination.decode(m, &r.defects)
	case attributesRequest:
		return m.each(func(number protowire.Number, http wire) error {
			if number != requestHTTP {
				return nil
			}
			return http.each(r.http)
		})
	case attributesExtensions:
		return r.entry(&r.extensions, m)
	case attributesMetadata:
		return r.metadata(&r.claims, &r.claimValues, jwtMetadata, m)
	case attributesRoute:
		return r.metadata(&r.gateway, &r.gatewayValues, gatewayMetadata, m)
	}
	return nil
}

func (r *authRequest) http(number protowire.Number, m wire) error {
	switch number {
	case httpMethod:
		r.method = r.text(m)
	case httpPath:
		r.path = r.text(m)
	case httpHost:
		r.host = r.text(m)
	case httpHeaders:
		return r.entry(&r.headers, m)
	case httpHeaderMap:
		return m.each(func(number protowire.Number, line wire) error {
			if number != headerMapHeaders {
				return nil
			}
			return r.line(line)
		})
	}
	return nil
}

// text returns a text, which counts by its bytes whether they are valid UTF-8 or not.
func (r *authRequest) text(m wire) string { return textOf(m, &r.defects) }

// entry adds an entry of a map of texts. One without a key is no header and no extension.
func (r *authRequest) entry(to *map[string]string, m wire) error {
	if m == "" {
		return nil
	}
	var key, value string
	err := m.each(func(number protowire.Number, text wire) error {
		switch number {
		case mapKey:
			key = r.text(text)
		case mapValue:
			value = r.text(text)
		}
		return nil
	})
	if *to == nil {
		*to = map[string]string{}
	}
	(*to)[key] = value
	return err
}

// line adds a line of a header. Lines without a name are no headers.
func (r *authRequest) line(m wire) error {
	var line headerLine
	raw := ""
	err := m.each(func(number protowire.Number, text wire) error {
		switch number {
		case headerKey:
			line.name = r.text(text)
		case headerValue:
			line.value = r.text(text)
		case headerRawValue:
			raw = string(text)
		}
		return nil
	})
	if raw != "" {
		line.value = raw
	}
	if line.name != "" {
		r.lines = append(r.lines, line)
	}
	return err
}

func (p *peer) decode(m wire, found *defects) error {
	return m.each(func(number protowire.Number, m wire) error {
		switch number {
		case peerAddress:
			return m.each(func(number protowire.Number, m wire) error { return p.decodeAddress(number, m, found) })
		case peerPrincipal:
			p.principal = textOf(m, found)
		}
		return nil
	})
}

// decodeAddress reads one of the kinds of an address. The last one applies.
func (p *peer) decodeAddress(number protowire.Number, m wire, found *defects) error {
	switch number {
	case addressPipe, addressInternal:
		p.address, p.port = "", 0
	case addressSocket:
		return m.fields(func(number protowire.Number, kind protowire.Type, rest *wire) (err error) {
			switch {
			case number == socketAddress && kind == protowire.BytesType:
				p.address, err = rest.text(found)
			case number == socketPort && kind == protowire.VarintType:
				p.port, err = rest.uint32()
			default:
				if number == socketNamedPort && kind == protowire.BytesType {
					p.port = 0
				}
				err = rest.skip(number, kind)
			}
			return err
		})
	}
	return nil
}
