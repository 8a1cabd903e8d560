// Package methods finds the methods by which a service can handle a request.
package methods

import (
	"slices"
	"strings"

	"github.com/weir-dev/weir/limiter/rules"
)

// Others are the methods, in addition to its own, by which a service can handle a request: its method in upper case, GET for a HEAD, and the
// method that a POST asks for. They are found once for a search.
type Others struct {
	found bool
	count int
	names [16]string
	more  bool // there are more
}

// overrides are the headers that frameworks read the method of a POST from. They read it from the parameter _method too.
func overrides() [3]string {
	return [...]string{"x-http-method-override", "x-http-method", "x-method-override"}
}

// methodParameter is the parameter of the query with the method of a POST.
const methodParameter = "_method"

// AnyOf reports whether one of the methods is one of methods.
func (o *Others) AnyOf(methods []string, r *rules.Request) bool {
	if !o.found {
		o.find(r)
	}
	return o.more || slices.ContainsFunc(o.names[:o.count], func(name string) bool { return slices.Contains(methods, name) })
}

func (o *Others) find(r *rules.Request) {
	o.found = true
	method := strings.ToUpper(r.Method)
	if method != r.Method {
		o.add(method)
	}
	switch method {
	case "HEAD":
		o.add("GET")
	case "POST":
		for _, name := range overrides() {
			value, _ := r.Header(name)
			for method := range strings.SplitSeq(value, ",") { // of several values, a service can read any
				o.add(method)
			}
		}
		for _, query := range append(slices.Clip(r.OtherQueries), r.Query) {
			for _, method := range query[methodParameter] {
				o.add(method)
			}
		}
		o.more = o.more || r.PartialQuery
	}
}

// maxMethod is the length of the longest method of a policy, in bytes.
const maxMethod = len("OPTIONS")

func (o *Others) add(name string) {
	name = strings.TrimSpace(name)
	switch {
	case name == "" || len(name) > maxMethod:
	case o.count == len(o.names):
		o.more = true
	default:
		o.names[o.count] = strings.ToUpper(name)
		o.count++
	}
}
