package wire

import "google.golang.org/protobuf/encoding/protowire"

// AuthRequest has the fields of an envoy.service.auth.v3.CheckRequest that the endpoint reads. The generated code rejects a message with a text that
// is not valid UTF-8, and allocates more than a hundred bytes for each empty element of a list.
type AuthRequest struct {
	Source      Peer
	Destination Peer
	Method      string
	Host, Path  string
	Headers     map[string]string
	Lines       []HeaderLine      // of header_map
	Extensions  map[string]string // context_extensions
	Claims      map[string]any    // what the JWT filter has verified: {key of the payload: {claim: value}}
	Gateway     map[string]any    // what Envoy Gateway reports about the route: {resources: [{kind, namespace, name, sectionName}]}
	Defects     Defects

	// The values that were read of the claims and of the gateway. The bounds apply to each, so that the claims of a client do not displace its route.
	claimValues, gatewayValues int
}

// Peer is an AttributeContext.Peer.
type Peer struct {
	Address   string // of an IP socket
	Port      uint32
	Principal string
}

// HeaderLine is a line of a header, as Envoy has received it.
type HeaderLine struct{ Name, Value string }

// The namespaces of the metadata that is read.
const (
	// jwtMetadata is the one in which the JWT filter of Envoy stores the claims of tokens.
	jwtMetadata = "envoy.filters.http.jwt_authn"
	// gatewayMetadata is the one in which Envoy Gateway names the route of a request, if includeRouteMetadata is set in its SecurityPolicy.
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

// Decode reads a message into r, which must be empty. As in generated code, the last value of a field applies, and a message that occurs again is
// merged, except for the value in an entry of a map. The error is that of a truncated or malformed message.
func (r *AuthRequest) Decode(message []byte) error {
	m := reader(message)
	return m.each(func(number protowire.Number, attributes reader) error {
		if number != checkAttributes {
			return nil
		}
		return attributes.each(r.attribute)
	})
}

func (r *AuthRequest) attribute(number protowire.Number, m reader) error {
	switch number {
	case attributesSource:
		return r.Source.decode(m, &r.Defects)
	case attributesDestination:
		return r.Destination.decode(m, &r.Defects)
	case attributesRequest:
		return m.each(func(number protowire.Number, http reader) error {
			if number != requestHTTP {
				return nil
			}
			return http.each(r.http)
		})
	case attributesExtensions:
		return r.entry(&r.Extensions, m)
	case attributesMetadata:
		return r.metadata(&r.Claims, &r.claimValues, jwtMetadata, m)
	case attributesRoute:
		return r.metadata(&r.Gateway, &r.gatewayValues, gatewayMetadata, m)
	}
	return nil
}

func (r *AuthRequest) http(number protowire.Number, m reader) error {
	switch number {
	case httpMethod:
		r.Method = r.text(m)
	case httpPath:
		r.Path = r.text(m)
	case httpHost:
		r.Host = r.text(m)
	case httpHeaders:
		return r.entry(&r.Headers, m)
	case httpHeaderMap:
		return m.each(func(number protowire.Number, line reader) error {
			if number != headerMapHeaders {
				return nil
			}
			return r.line(line)
		})
	}
	return nil
}

// text returns a text, which counts by its bytes whether they are valid UTF-8 or not.
func (r *AuthRequest) text(m reader) string { return textOf(m, &r.Defects) }

// entry adds an entry of a map of texts. One without a key is no header and no extension.
func (r *AuthRequest) entry(to *map[string]string, m reader) error {
	if m == "" {
		return nil
	}
	var key, value string
	err := m.each(func(number protowire.Number, text reader) error {
		switch number {
		case MapKey:
			key = r.text(text)
		case MapValue:
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
func (r *AuthRequest) line(m reader) error {
	var line HeaderLine
	raw := ""
	err := m.each(func(number protowire.Number, text reader) error {
		switch number {
		case HeaderKey:
			line.Name = r.text(text)
		case HeaderValue:
			line.Value = r.text(text)
		case headerRawValue:
			raw = string(text)
		}
		return nil
	})
	if raw != "" {
		line.Value = raw
	}
	if line.Name != "" {
		r.Lines = append(r.Lines, line)
	}
	return err
}

func (p *Peer) decode(m reader, found *Defects) error {
	return m.each(func(number protowire.Number, m reader) error {
		switch number {
		case peerAddress:
			return m.each(func(number protowire.Number, m reader) error { return p.decodeAddress(number, m, found) })
		case peerPrincipal:
			p.Principal = textOf(m, found)
		}
		return nil
	})
}

// decodeAddress reads one of the kinds of an address. The last one applies.
func (p *Peer) decodeAddress(number protowire.Number, m reader, found *Defects) error {
	switch number {
	case addressPipe, addressInternal:
		p.Address, p.Port = "", 0
	case addressSocket:
		return m.fields(func(number protowire.Number, kind protowire.Type, rest *reader) (err error) {
			switch {
			case number == socketAddress && kind == protowire.BytesType:
				p.Address, err = rest.text(found)
			case number == socketPort && kind == protowire.VarintType:
				p.Port, err = rest.uint32()
			default:
				if number == socketNamedPort && kind == protowire.BytesType {
					p.Port = 0
				}
				err = rest.skip(number, kind)
			}
			return err
		})
	}
	return nil
}
