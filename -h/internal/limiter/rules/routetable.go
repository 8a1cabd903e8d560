package rules

import "strings"

// RouteTable has the routes of gateways that do not name the route of a request. With it, a limiter finds the route as these gateways do.
type RouteTable struct {
	// Routes are the routes, or the rules of routes, of the matches.
	Routes []Route `json:"routes"`
	// Matches of the routes.
	Matches []RouteMatch `json:"matches"`
	// Groups are where a request can have arrived. Empty means one group, of requests at any port.
	Groups []RouteGroup `json:"groups,omitempty"`
	// Listeners of one group have different hosts. A request belongs to the listener with the most specific one, as the Gateway API requires.
	Listeners []RouteListener `json:"listeners"`
}

// RouteGroup is a port of a Gateway.
type RouteGroup struct {
	// Gateway is equal for all ports of a Gateway.
	Gateway int `json:"gateway"`
	// Port of the listeners. 0 means any, or any that no group has if Shared is true.
	Port int32 `json:"port,omitempty"`
	// Shared is true if only ListenerSets have this port. Their owners choose it.
	Shared bool `json:"shared,omitempty"`
}

// RouteListener has what the listeners with one host name accept.
type RouteListener struct {
	// Groups are indexes of RouteTable.Groups; empty for all.
	Groups []int       `json:"groups,omitempty"`
	Host   string      `json:"host,omitempty"` // as in Match.Hosts; empty for every host
	Hosts  []RouteHost `json:"hosts"`
}

// RouteHost has the matches for a host of a listener. A request belongs to the most specific one.
type RouteHost struct {
	Host string `json:"host,omitempty"` // as in Match.Hosts; empty for every host
	// Matches are indexes of RouteTable.Matches. The first one that matches a request takes it.
	Matches []int `json:"matches"`
}

// RouteMatch selects requests of a route. A request must match every field that is set.
type RouteMatch struct {
	// Route is an index of RouteTable.Routes.
	Route int `json:"route"`
	// Path is compared with the path as the gateway has sent it, without the query.
	Path PathMatch `json:"path"`
	// Suffix of the path, such as "/Get" for a method of any gRPC service.
	Suffix  string        `json:"suffix,omitempty"`
	Method  string        `json:"method,omitempty"`
	Headers []HeaderMatch `json:"headers,omitempty"`
	// Query has parameters, with names and values as in the request: they are not decoded. The first value of a parameter counts.
	Query []HeaderMatch `json:"query,omitempty"`
}

// RouteEntry is the key of the descriptor entries that name the route of a request. The value is "HTTPRoute/checkout", or
// "HTTPRoute/checkout/pay" for the rule pay of the route, which names the route too. The domain of the request is the namespace of the route.
// The configuration of the gateway sets such an entry; a client must not.
const RouteEntry = "target"

// Route is a route of the Gateway API, or a rule of one.
type Route struct {
	Namespace string `json:"namespace"`
	Target    string `json:"target"` // the value of RouteEntry
}

// RouteTarget returns the value of [RouteEntry] for a route, or for a rule of the route if rule is not empty.
func RouteTarget(kind, name, rule string) string {
	if rule == "" {
		return kind + "/" + name
	}
	return kind + "/" + name + "/" + rule
}

// RouteOf returns the target without the rule of the route: "HTTPRoute/checkout" of "HTTPRoute/checkout/pay". A request for a rule is one for
// its route too, and a gateway whose context extensions have one value for each key can name only one of them.
func RouteOf(target string) string {
	name := strings.IndexByte(target, '/') + 1
	if rule := strings.IndexByte(target[name:], '/'); name > 0 && rule >= 0 {
		return target[:name+rule]
	}
	return target
}
