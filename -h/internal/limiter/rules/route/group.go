package route

import (
	"slices"

	"github.com/weir-dev/weir/go/internal/limiter/rules"
)

// privileged is the lowest port that a process can listen on without privileges. Gateways whose pods are unprivileged listen on shifted higher ports.
const (
	privileged = 1024
	shifted    = 10_000
)

// podPorts returns the ports in the pods of a gateway at which requests for a port of a listener arrive: the same, as in Istio, or a higher one
// without privileges, as in Envoy Gateway. Services can have other ports: see byPort.
func podPorts(port int32) []int32 {
	if port > 0 && port < privileged {
		return []int32{port, port + shifted}
	}
	return []int32{port}
}

// ShareAPodPort reports whether requests for listeners with these ports can arrive at the same port in the pods of a gateway.
func ShareAPodPort(a, b int32) bool {
	return slices.ContainsFunc(podPorts(a), func(port int32) bool { return slices.Contains(podPorts(b), port) })
}

// portGroups are indexes of groups. A request belongs to the listeners with the most specific host name of all of them.
type portGroups []int

// byPort returns for each port in the pods of the gateways the groups to which a request can belong. A Gateway without a group of this port can
// have a Service that maps ports in another way, so that the request can belong to all of its groups. The owner of a ListenerSet chooses the port
// of a shared group: such a port does not exclude the other groups of the Gateway, because their Service can map to it. A shared group of any port
// has only the requests at ports that no group has: its owners must not take those of others.
//
// Shared groups of a Gateway for different ports can be one port in the pod, such as 443 and 10443. Their listeners are then those of one port, so that
// a tenant cannot take the requests of another one with a less specific host name.
func byPort(groups []rules.RouteGroup) map[int32][]portGroups {
	ports := map[int32][]portGroups{}
	for i := range groups {
		for _, port := range podPorts(groups[i].Port) {
			ports[port] = nil
		}
	}
	delete(ports, 0)
	for port := range ports {
		ports[port] = groupsAt(groups, port)
	}
	return ports
}

func groupsAt(groups []rules.RouteGroup, port int32) (found []portGroups) {
	matched, owned := map[int]bool{}, map[int]bool{} // by Gateway
	isAt := func(g *rules.RouteGroup) bool {
		return g.Port == 0 && !g.Shared || slices.Contains(podPorts(g.Port), port)
	}
	for i := range groups {
		if g := &groups[i]; isAt(g) {
			matched[g.Gateway] = true
			owned[g.Gateway] = owned[g.Gateway] || !g.Shared
		}
	}
	shared := map[int]int{} // index in all of the shared groups at this port, by Gateway
	for i := range groups {
		g := &groups[i]
		index, ok := shared[g.Gateway]
		switch {
		case !isAt(g) && (g.Port == 0 || matched[g.Gateway] && (owned[g.Gateway] || g.Shared)):
		case !isAt(g) || !g.Shared:
			found = append(found, portGroups{i})
		case ok:
			found[index] = append(found[index], i)
		default:
			shared[g.Gateway] = len(found)
			found = append(found, portGroups{i})
		}
	}
	return found
}
