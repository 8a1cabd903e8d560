package server

import (
	"encoding/json"
	"errors"
	"fmt"
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

// Bounds of a check's body.
const (
	maxBody        = 64 << 10 // bytes
	maxDomain      = 253      // bytes
	maxHeaders     = 128
	maxQuery       = 256 // parameters
	maxDescriptors = 64
	maxEntries     = 64 // in one descriptor
	maxNameShown   = 64 // bytes of a name from the client that a message shows
)

// bodyField is the field of problems that concern the whole body.
const bodyField = "body"

const checkFields = "domain, method, host, path, query, headers, clientIP, claims, descriptors, cost, peek"

// DecodeCheck reads the body of POST /v1/check. It has the same bounds.
func DecodeCheck(body []byte) (engine.Check, *reply.Problem) {
	if len(body) > maxBody {
		return engine.Check{}, bodyTooLarge()
	}
	return decode(body)
}

// decode reads the body of POST /v1/check:
//
//	{"domain":"shop","method":"GET","host":"api.shop.example","path":"/v1/search","query":{"q":["x"]},
//	 "headers":{"x-tenant-id":"acme"},"clientIP":"203.0.113.7","claims":{"sub":"u1"},
//	 "descriptors":[[{"key":"generic_key","value":"login"}]],"cost":1,"peek":false}
//
// The domain is required, and at least one other field from which an axis can be read. Unknown fields, repeated fields, wrong
// types (null included) and values out of range are rejected with the name of the field. A query in the path is added to query.
func decode(body []byte) (engine.Check, *reply.Problem) {
	if !utf8.Valid(body) {
		return engine.Check{}, badField(bodyField, "is not valid UTF-8")
	}
	if !json.Valid(body) {
		return engine.Check{}, badField(bodyField, "is not valid JSON: "+syntaxError(body))
	}
	d := decoder{json: jsonText{text: string(body)}, check: engine.Check{Cost: 1}}
	if kind := d.json.kind(); kind != kindObject {
		return engine.Check{}, wrongKind(bodyField, kindObject, kind)
	}
	seen := make([]string, 0, 11)
	for name := range d.json.members() {
		if slices.Contains(seen, name) {
			return engine.Check{}, badField(name, "is present more than once")
		}
		seen = append(seen, name)
		if bad := d.field(name); bad != nil {
			return engine.Check{}, bad
		}
	}
	return d.finish()
}

// decoder is the state of decode: the check as far as it has been read.
type decoder struct {
	json  jsonText
	check engine.Check
	// path is the given path, including its query.
	path string
}

func (d *decoder) field(name string) *reply.Problem {
	r := &d.check.Request
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
	default:
		return badField(clip(name), "is not a field of a check; the fields are "+checkFields)
	}
}

// finish validates rules that concern several fields and normalizes the request.
func (d *decoder) finish() (engine.Check, *reply.Problem) {
	r := &d.check.Request
	switch {
	case r.Domain == "":
		return engine.Check{}, badField("domain", "is missing: set it to the domain whose policies apply, for example a namespace")
	case len(r.Domain) > maxDomain:
		return engine.Check{}, badField("domain", fmt.Sprintf("is longer than %d bytes", maxDomain))
	}
	r.Host = rules.NormalHost(r.Host)
	if d.path != "" {
		r.SetTarget(d.path)
		d.pathQuery()
	}
	r.NoHTTP = len(r.Descriptors) > 0 && r.Method+r.Host+r.Path == "" && len(r.Query)+len(r.Headers)+len(r.Claims) == 0
	if r.Path == "" && r.Host == "" && len(r.Query) == 0 && len(r.Headers) == 0 && !r.ClientIP.IsValid() && !r.InvalidClientIP &&
		len(r.Claims) == 0 && len(r.Descriptors) == 0 {
		return engine.Check{}, reply.NewProblem(http.StatusBadRequest, bodyField,
			"the body has no field to count requests by: set at least one of clientIP, headers, query, path, host, claims, descriptors")
	}
	return d.check, nil
}

// pathQuery adds the query in the path to the query of the request.
func (d *decoder) pathQuery() {
	more := rules.ParseQuery(d.path)
	if d.check.Request.Query == nil {
		d.check.Request.Query = more
		return
	}
	for name, values := range more {
		d.check.Request.Query[name] = append(d.check.Request.Query[name], values...)
	}
}

func (d *decoder) str(field string, into *string) *reply.Problem {
	if kind := d.json.kind(); kind != kindString {
		return wrongKind(field, kindString, kind)
	}
	*into = d.json.str()
	return nil
}

func (d *decoder) query() *reply.Problem {
	if kind := d.json.kind(); kind != kindObject {
		return wrongKind("query", kindObject, kind)
	}
	d.check.Request.Query = map[string][]string{}
	for name := range d.json.members() {
		field := "query." + clip(name)
		if _, ok := d.check.Request.Query[name]; ok {
			return badField(field, "is present more than once")
		}
		if len(d.check.Request.Query) == maxQuery {
			return badField("query", fmt.Sprintf("has more than %d parameters", maxQuery))
		}
		if kind := d.json.kind(); kind != kindList {
			return wrongKind(field, "a list of strings", kind)
		}
		values := make([]string, 0, 1)
		for i := range d.json.elements() {
			if kind := d.json.kind(); kind != kindString {
				return wrongKind(fmt.Sprintf("%s[%d]", field, i), kindString, kind)
			}
			values = append(values, d.json.str())
		}
		d.check.Request.Query[name] = values
	}
	return nil
}

func (d *decoder) headers() *reply.Problem {
	if kind := d.json.kind(); kind != kindObject {
		return wrongKind("headers", kindObject, kind)
	}
	headers := make(map[string]string)
	d.check.Request.Headers = headers
	for name := range d.json.members() {
		lower := strings.ToLower(name)
		if lower == "" {
			return badField("headers", "contains a header with an empty name")
		}
		if _, ok := headers[lower]; ok {
			return badField("headers."+clip(name), "is present more than once: header names are not case-sensitive")
		}
		if len(headers) == maxHeaders {
			return badField("headers", fmt.Sprintf("has more than %d headers", maxHeaders))
		}
		if kind := d.json.kind(); kind != kindString {
			return wrongKind("headers."+clip(name), kindString, kind)
		}
		headers[lower] = d.json.str()
	}
	return nil
}

// clientIP reads the address of the client. A text that is no address can be the choice of the client, so it does not keep other policies from
// deciding.
func (d *decoder) clientIP() *reply.Problem {
	var text string
	if bad := d.str("clientIP", &text); bad != nil {
		return bad
	}
	ip, known := clientip.Parse(text)
	d.check.Request.ClientIP, d.check.Request.InvalidClientIP = ip, !known && text != ""
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
		field := fmt.Sprintf("descriptors[%d]", i)
		if i == maxDescriptors {
			return badField("descriptors", fmt.Sprintf("has more than %d descriptors", maxDescriptors))
		}
		if kind := d.json.kind(); kind != kindList {
			return wrongKind(field, "a list of entries", kind)
		}
		var descriptor rules.Descriptor
		for j := range d.json.elements() {
			if j == maxEntries {
				return badField(field, fmt.Sprintf("has more than %d entries", maxEntries))
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
	switch {
	case texts[0] == "":
		return rules.Entry{}, badField(field+".key", "is missing")
	case !given[1]:
		return rules.Entry{}, badField(field+".value", "is missing")
	}
	return rules.Entry{Key: texts[0], Value: texts[1]}, nil
}

func (d *decoder) cost() *reply.Problem {
	whole := fmt.Sprintf("a whole number from 1 to %d", limiter.MaxUnits)
	if kind := d.json.kind(); kind != kindNumber {
		return wrongKind("cost", whole, kind)
	}
	cost, err := strconv.ParseInt(d.json.literal(), 10, 64)
	if err != nil || cost < 1 || cost > limiter.MaxUnits {
		return badField("cost", "must be "+whole)
	}
	d.check.Cost = cost
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
