package rules

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

// Validate returns an error if a limiter cannot compare requests with the match.
func (m RouteMatch) Validate() error {
	m.Route = 0
	_, err := newRouteCompiler([]Route{{}}).compileMatch(m)
	return err
}
