package matching

import (
	"errors"
	"slices"
	"strings"

	"github.com/weir-dev/weir/limiter/persistent"
	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/limiter/rules/tables"
)

// maxTarget bounds the values that are looked up, in bytes: a kind and two names of at most 253 bytes.
const maxTarget = 600

// findByRoute finds the rules for each route and rule that the descriptors of the request name. A rule that is found twice matches once.
func (s *search) findByRoute(index *persistent.Map[string, *tables.Paths[*Compiled]]) {
	if index.Len() == 0 {
		return
	}
	for _, d := range s.request.Descriptors {
		for j := range d {
			if d[j].Key != rules.RouteEntry || len(d[j].Value) > maxTarget {
				continue
			}
			s.findByTarget(index, d[j].Value)
			if route := rules.RouteOf(d[j].Value); route != d[j].Value {
				s.findByTarget(index, route)
			}
		}
	}
}

func (s *search) findByTarget(index *persistent.Map[string, *tables.Paths[*Compiled]], target string) {
	s.cost += len(target)
	if p := index.Get(target); p != nil {
		s.findByPath(p)
	}
}

// validateRoutes rejects conditions that the index does not find together with routes.
func validateRoutes(c *Compiled) error {
	m := &c.Match
	switch {
	case m.Routes == nil:
		return nil
	case len(m.Hosts) > 0 || len(m.Descriptors) > 0 || m.Kubernetes != nil || c.AllDomains:
		return errors.New("a rule with routes must not have hosts, descriptors, kubernetes and allDomains")
	case slices.ContainsFunc(m.Routes, func(r rules.Route) bool { return r.Namespace == "" || !strings.Contains(r.Target, "/") }):
		return errors.New("a route must have a namespace and a target")
	default:
		return nil
	}
}
