package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/clientip"
	"github.com/weir-dev/weir/limiter/engine"
	"github.com/weir-dev/weir/limiter/reply"
	"github.com/weir-dev/weir/limiter/rules"
)

// Bounds of a check's body. A client of the gateway can influence how large a body is, and gateways serve requests whose check fails. So a body over
// a bound is not an error: descriptors and entries are cut, and a request that cannot be decoded within the bounds is denied.
const (
	maxBody        = 1 << 20  // bytes; gateways accept up to 64 KiB of headers, and JSON encodes some bytes as six
	smallBody      = 64 << 10 // bytes; larger bodies share a bound, see maxLargeBytes
	maxValues      = 32 << 10 // values and parameters of a larger body, about as many as fit into a small one
	maxDomain      = 253      // bytes
	maxDescriptors = 64
	maxEntries     = 64 // in one descriptor
	maxNameShown   = 64 // bytes of a name from the client that a message shows
)

// bodyField is the field of problems that concern the whole body.
const bodyField = "body"

const checkFields = "domain, method, host, path, query, headers, clientIP, claims, descriptors, cost, peek, override"

// The defects of a check, as responses and metrics name them: what could not be used as it is. The first three are also defects of gRPC calls.
const (
	defectNotUTF8     = "not_utf8"    // a text that is not valid UTF-8, counted by its bytes
	defectDescriptors = "descriptors" // descriptors over the bound, which are not decided
	defectEntries     = "entries"     // entries of a descriptor over the bound
	defectEmptyKey    = "empty_key"   // an entry whose key is empty
	defectCost        = "cost"        // a cost out of range, which is set to the nearest one
	defectValue       = "value"       // a value of a header or parameter that is no text, which is left out
	defectSize        = "size"        // a request that is too large to decode, which is denied
)

// DecodeCheck reads the body of POST /v1/check. It has the same bounds, and returns a problem for a body that the endpoint denies.
func DecodeCheck(body []byte) (engine.Check, *reply.Problem) {
	check, defects, bad := decode(body)
	if slices.Contains(defects, defectSize) {
		bad = badField(bodyField, fmt.Sprintf("is larger than %d bytes, or has more than %d values or parameters", maxBody, maxValues))
	}
	return check, bad
}

// tooLarge reports whether a body is too large to decode. Each value takes memory, however short it is. The count includes what is in a text, where
// no request has so many of these characters.
func tooLarge(body []byte) bool {
	if len(body) <= smallBody {
		return false
	}
	return len(body) > maxBody || bytes.Count(body, []byte(","))+bytes.Count(body, []byte("["))+bytes.Count(body, []byte("{")) > maxValues
}

// decode reads the body of POST /v1/check:
//
//	{"domain":"shop","method":"GET","host":"api.shop.example","path":"/v1/search","query":{"q":["x"]},
//	 "headers":{"x-tenant-id":"acme"},"clientIP":"203.0.113.7","claims":{"sub":"u1"},
//	 "descriptors":[[{"key":"generic_key","value":"login"}]],"cost":1,"peek":false,"override":{"limit":5,"windowMs":60000}}
//
// The domain is required, and at least one other field from which an axis can be read. A field that is null is absent. Unknown fields, repeated fields
// and wrong types are rejected with the name of the field: only the author of a gateway can cause them. What a client can cause is a defect, and the
// rest is decided. With the defect "size", the check is incomplete and must be denied. A query in the path is added to query.
func decode(body []byte) (engine.Check, []string, *reply.Problem) {
	if tooLarge(body) {
		return engine.Check{}, []string{defectSize}, nil
	}
	if !json.Valid(body) {
		return engine.Check{}, nil, badField(bodyField, "is not valid JSON: "+syntaxError(body))
	}
	d := decoder{json: jsonText{text: string(body)}, check: engine.Check{Cost: 1}}
	if !utf8.Valid(body) {
		d.defect(defectNotUTF8)
	}
	if kind := d.json.kind(); kind != kindObject {
		return engine.Check{}, nil, wrongKind(bodyField, kindObject, kind)
	}
	seen := make([]string, 0, 12)
	for name := range d.json.members() {
		if slices.Contains(seen, name) {
			return engine.Check{}, nil, badField(name, "is present more than once")
		}
		seen = append(seen, name)
		if bad := d.field(name); bad != nil {
			return engine.Check{}, nil, bad
		}
	}
	if bad := d.finish(seen); bad != nil {
		return engine.Check{}, nil, bad
	}
	return d.check, d.defects, nil
}

// decoder is the state of decode: the check as far as it has been read.
type decoder struct {
	json  jsonText
	check engine.Check
	// path is the given path, including its query.
	path    string
	defects []string
}

// defect records a defect.
func (d *decoder) defect(name string) {
	if !slices.Contains(d.defects, name) {
		d.defects = append(d.defects, name)
	}
}

func (d *decoder) field(name string) *reply.Problem {
	r := &d.check.Request
	if d.json.kind() == kindNull && slices.Contains(strings.Split(checkFields, ", "), name) {
		d.json.literal() // many languages write an absent value so
		return nil
	}
	switch name {
	case "domain":
		return d.str(name, &r.Domain)
	case "method":
		return d.str(name, &r.Method)
	case "host":
		return d.str(name, &r.Host)
	case "path":
		return d.str(name, &d.path)
	case "query":
		return d.query()
	case "headers":
		return d.headers()
	case "clientIP":
		return d.clientIP()
	case "claims":
		return d.claims()
	case "descriptors":
		return d.descriptors()
	case "cost":
		return d.cost()
	case "peek":
		return d.peek()
	case "override":
		return d.override()
	default:
		return badField(clip(name), "is not a field of a check; the fields are "+checkFields)
	}
}

// identifies reports whether an axis can be read from a field. Clients can make such a field empty, so only a body without any of them is rejected.
func identifies(field string) bool {
	switch field {
	case "clientIP", "headers", "query", "path", "host", "claims", "descriptors":
		return true
	}
	return false
}

// finish validates rules that concern several fields and normalizes the request. The body has the fields seen.
func (d *decoder) finish(seen []string) *reply.Problem {
	r := &d.check.Request
	switch {
	case r.Domain == "":
		return badField("domain", "is missing: set it to the domain whose policies apply, for example a namespace")
	case len(r.Domain) > maxDomain:
		return badField("domain", fmt.Sprintf("is longer than %d bytes", maxDomain))
	case !slices.ContainsFunc(seen, identifies):
		return reply.NewProblem(http.StatusBadRequest, bodyField,
			"the body has no field to count requests by: set at least one of clientIP, headers, query, path, host, claims, descriptors")
	}
	r.Host = rules.NormalHost(r.Host)
	if d.path != "" {
		r.SetTarget(d.path)
		d.pathQuery()
	}
	r.NoHTTP = len(r.Descriptors) > 0 && r.Method+r.Host+r.Path == "" && len(r.Query)+len(r.Headers)+len(r.Claims) == 0
	return nil
}

// pathQuery adds the query in the path to the query of the request.
func (d *decoder) pathQuery() {
	r := &d.check.Request
	given := r.Query
	r.Query = nil
	r.SetQuery(d.path)
	if r.Query == nil {
		r.Query = given
		return
	}
	for _, reading := range append(slices.Clip(r.OtherQueries), r.Query) {
		for name, values := range given {
			reading[name] = append(slices.Clip(values), reading[name]...)
		}
	}
}

func (d *decoder) str(field string, target *string) *reply.Problem {
	if kind := d.json.kind(); kind != kindString {
		return wrongKind(field, kindString, kind)
	}
	*target = d.json.str()
	return nil
}

func (d *decoder) query() *reply.Problem {
	if kind := d.json.kind(); kind != kindObject {
		return wrongKind("query", kindObject, kind)
	}
	query := map[string][]string{}
	d.check.Request.Query = query
	for name := range d.json.members() {
		if given, repeated := query[name]; repeated {
			query[name] = d.texts(given)
		} else {
			query[name] = d.texts(make([]string, 0, 1))
		}
	}
	return nil
}

// headers reads the headers. A client can send a header several times, in several spellings: the lines are joined.
func (d *decoder) headers() *reply.Problem {
	if kind := d.json.kind(); kind != kindObject {
		return wrongKind("headers", kindObject, kind)
	}
	headers := make(map[string]string)
	d.check.Request.Headers = headers
	var repeated map[string][]string // the lines of the headers that have several
	var room [1]string
	for name := range d.json.members() {
		lower, lines := strings.ToLower(name), d.texts(room[:0])
		if lower == "" || len(lines) == 0 {
			continue
		}
		previous, given := headers[lower]
		if !given && len(lines) == 1 {
			headers[lower] = lines[0]
			continue
		}
		if repeated == nil {
			repeated = map[string][]string{}
		}
		if given && repeated[lower] == nil {
			repeated[lower] = []string{previous}
		}
		repeated[lower] = append(repeated[lower], lines...)
		headers[lower] = ""
	}
	for name, lines := range repeated {
		headers[name] = rules.JoinHeader(name, lines)
		if name != "cookie" {
			d.check.Request.RepeatedHeaders = append(d.check.Request.RepeatedHeaders, name)
		}
	}
	return nil
}

// texts appends a string or the strings in a list to values, and skips what is no string: with some frameworks, a client decides the type of a value.
func (d *decoder) texts(values []string) []string {
	switch d.json.kind() {
	case kindString:
		return append(values, d.json.str())
	case kindList:
		for range d.json.elements() {
			if d.json.kind() == kindString {
				values = append(values, d.json.str())
				continue
			}
			d.defect(defectValue)
			d.json.value()
		}
		return values
	default:
		d.defect(defectValue)
		d.json.value()
		return values
	}
}

// clientIP reads the address of the client. A text that is no address can be the choice of the client, so it does not keep other policies from
// deciding.
func (d *decoder) clientIP() *reply.Problem {
	var text string
	if bad := d.str("clientIP", &text); bad != nil {
		return bad
	}
	ip, valid := clientip.Parse(text)
	d.check.Request.ClientIP, d.check.Request.InvalidClientIP = ip, !valid && text != ""
	return nil
}

func (d *decoder) claims() (bad *reply.Problem) {
	d.check.Request.Claims, bad = parseClaims(&d.json, "claims")
	return bad
}

func (d *decoder) descriptors() *reply.Problem {
	if kind := d.json.kind(); kind != kindList {
		return wrongKind("descriptors", "a list of descriptors", kind)
	}
	for i := range d.json.elements() {
		if i >= maxDescriptors {
			d.defect(defectDescriptors)
			d.json.value()
			continue
		}
		field := fmt.Sprintf("descriptors[%d]", i)
		if kind := d.json.kind(); kind != kindList {
			return wrongKind(field, "a list of entries", kind)
		}
		var descriptor rules.Descriptor
		for j := range d.json.elements() {
			if j >= maxEntries {
				d.defect(defectEntries)
				d.json.value()
				continue
			}
			entry, bad := d.entry(fmt.Sprintf("%s[%d]", field, j))
			if bad != nil {
				return bad
			}
			descriptor = append(descriptor, entry)
		}
		d.check.Request.Descriptors = append(d.check.Request.Descriptors, descriptor)
	}
	return nil
}

// entry reads {"key":"generic_key","value":"login"}.
func (d *decoder) entry(field string) (rules.Entry, *reply.Problem) {
	if kind := d.json.kind(); kind != kindObject {
		return rules.Entry{}, wrongKind(field, kindObject, kind)
	}
	var texts [2]string
	var given [2]bool
	names := [2]string{"key", "value"}
	for name := range d.json.members() {
		i := slices.Index(names[:], name)
		if i < 0 {
			return rules.Entry{}, badField(field+"."+clip(name), "is not a field of a descriptor entry; the fields are key, value")
		}
		if given[i] {
			return rules.Entry{}, badField(field+"."+name, "is present more than once")
		}
		given[i] = true
		if bad := d.str(field+"."+name, &texts[i]); bad != nil {
			return rules.Entry{}, bad
		}
	}
	for i, name := range names {
		if !given[i] {
			return rules.Entry{}, badField(field+"."+name, "is missing")
		}
	}
	if texts[0] == "" {
		d.defect(defectEmptyKey)
	}
	return rules.Entry{Key: texts[0], Value: texts[1]}, nil
}

// cost reads the cost. A gateway can compute it from the request, so one out of range is set to the nearest cost.
func (d *decoder) cost() *reply.Problem {
	if kind := d.json.kind(); kind != kindNumber {
		return wrongKind("cost", kindNumber, kind)
	}
	text := d.json.literal()
	cost, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		float, _ := strconv.ParseFloat(text, 64) // infinite if it is too large
		cost = int64(math.Ceil(min(max(float, 1), limiter.MaxUnits)))
	}
	d.check.Cost = min(max(cost, 1), limiter.MaxUnits)
	if err != nil || cost != d.check.Cost {
		d.defect(defectCost)
	}
	return nil
}

func (d *decoder) peek() *reply.Problem {
	if kind := d.json.kind(); kind != kindBool {
		return wrongKind("peek", kindBool, kind)
	}
	d.check.Peek = d.json.literal() == "true"
	return nil
}

// badField returns the problem for an invalid field. The detail is the field followed by why.
func badField(field, why string) *reply.Problem {
	return reply.NewProblem(http.StatusBadRequest, field, field+" "+why)
}

// wrongKind returns the problem for a field whose value has the wrong type.
func wrongKind(field, want, got string) *reply.Problem {
	return badField(field, "must be "+want+", not "+got)
}

// syntaxError describes the first syntax error of a body that json.Valid has rejected, and its position.
func syntaxError(body []byte) string {
	err := json.Unmarshal(body, new(json.RawMessage))
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		return fmt.Sprintf("%v at byte %d", syntax, syntax.Offset)
	}
	return fmt.Sprint(err)
}

// clip shortens a name from the client for a message.
func clip(name string) string {
	if len(name) <= maxNameShown {
		return name
	}
	return strings.ToValidUTF8(name[:maxNameShown], "") + "…"
}
