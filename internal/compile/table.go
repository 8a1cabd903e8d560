package compile

import (
	"slices"

	"github.com/weir-dev/weir/api/v1alpha1/policyapi"
	"github.com/weir-dev/weir/internal/compile/routetable"
	"github.com/weir-dev/weir/limiter/rules"
)

// table remembers the table of routes.
type table struct {
	gateways, namespaces uint64 // versions that it was built from; 0 if there is no table to reuse
	routeMatching        []policyapi.GatewayReference

	built   *rules.RouteTable
	leftOut string
}

// build returns the table of the routes of the Gateways in RouteMatching, nil if the list is empty, and which routes it does not have.
func (t *table) build(in *Inputs) (built *rules.RouteTable, leftOut string) {
	switch {
	case len(in.RouteMatching) == 0 || in.Gateways == nil:
		return nil, ""
	case in.Gateways.Unreadable != nil:
		return in.Gateways.Previous.RouteTable, ""
	case t.gateways != 0 && t.gateways == in.Gateways.Version && t.namespaces != 0 && t.namespaces == in.NamespacesVersion &&
		slices.Equal(t.routeMatching, in.RouteMatching):
		return t.built, t.leftOut
	}
	namespaces := make(map[string]map[string]string, len(in.Namespaces))
	for _, n := range in.Namespaces {
		namespaces[n.Name] = n.Labels
	}
	*t = table{gateways: in.Gateways.Version, namespaces: in.NamespacesVersion, routeMatching: slices.Clone(in.RouteMatching)}
	t.built, t.leftOut = routetable.Build(in.Gateways, in.RouteMatching, namespaces)
	return t.built, t.leftOut
}
