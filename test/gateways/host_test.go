//go:build gateways

package gateways_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/limiter/rules/matching"
	"github.com/weir-dev/weir/limiter/rules/route"
)

// hostConfig is an Envoy that answers with the name of its virtual host.
const hostConfig = `
static_resources:
  listeners:
  - address: %s
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: front
          %s
          http_filters: [{name: envoy.filters.http.router, typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}}]
          route_config:
            %s
            virtual_hosts:
            - {name: shop, domains: [shop.example], routes: [{match: {prefix: /}, direct_response: {status: 200, body: {inline_string: shop}}}]}
            - {name: any, domains: ["*"], routes: [{match: {prefix: /}, direct_response: {status: 200, body: {inline_string: any}}}]}
`

// Gateways differ in what they take for a port. Weir counts a request for the route that each of them chooses, and for no other one if the port is one.
func TestEnvoy_HostsOfRoutes(t *testing.T) {
	table := &rules.RouteTable{
		Routes:  []rules.Route{{Namespace: "shop", Target: "HTTPRoute/shop"}, {Namespace: "any", Target: "HTTPRoute/any"}},
		Matches: []rules.RouteMatch{{Path: rules.PathMatch{Type: rules.PathPrefix, Value: "/"}}, {Route: 1, Path: rules.PathMatch{Type: rules.PathPrefix, Value: "/"}}},
		Listeners: []rules.RouteListener{{Hosts: []rules.RouteHost{
			{Host: "shop.example", Matches: []int{0}}, {Matches: []int{1}},
		}}},
	}
	x, err := matching.NewIndex(rules.Set{RouteTable: table}, "", "weir:")
	if err != nil {
		t.Fatal(err)
	}
	chosen := map[string]string{} // by host, those of both gateways
	for _, option := range [][2]string{{"", "ignore_port_in_host_matching: true"}, {"strip_any_host_port: true", ""}} {
		front := free(t)
		startEnvoy(t, fmt.Sprintf(hostConfig, "{socket_address: {address: 127.0.0.1, port_value: "+front[strings.Index(front, ":")+1:]+"}}", option[0], option[1]))
		for _, host := range []string{
			"shop.example", "SHOP.example:80", "shop.example:99999", "shop.example:", "shop.example:abc", "shop.example:80x", "shop.example:+80", "shop.example:-1",
			"shop.example:4294967295", "shop.example:4294967296", "shop.example:80:x", "shop.example:x:80", "shop.example:]x", "shop.example:x]", "shop.example.",
			"[::1]", "[::1]:80", "other:80",
		} {
			name := virtualHost(t, front, host)
			chosen[host] = strings.TrimSpace(chosen[host] + " " + name)
			var counted []string
			for _, r := range x.RoutesOf(&route.Request{Method: "GET", Host: host, Target: "/"}) {
				counted = append(counted, r.Namespace)
			}
			if all := strings.Join(counted, " "); name != "" && !strings.Contains(all, name) {
				t.Errorf("%s with %s: Envoy chose %s, and the request counts for %q", host, option, name, all)
			}
		}
	}
	t.Logf("with ignore_port_in_host_matching and with strip_any_host_port: %v", chosen)
	if got := chosen["shop.example:abc"]; got != "shop any" {
		t.Errorf("Envoy chose %q for a text in place of a port", got)
	}
}

// virtualHost returns the virtual host of a request that is sent as it is, or "" if Envoy rejects it.
func virtualHost(t *testing.T, front, host string) string {
	t.Helper()
	connection, err := new(net.Dialer).DialContext(t.Context(), "tcp", front)
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	if err := connection.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(connection, "GET / HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", host)
	response, err := http.ReadResponse(bufio.NewReader(connection), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	if response.StatusCode != http.StatusOK {
		return ""
	}
	return string(body)
}
