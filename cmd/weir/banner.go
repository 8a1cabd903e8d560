package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/weir-dev/weir/cmd/internal/cli"
	"github.com/weir-dev/weir/cmd/weir/flags"
	"github.com/weir-dev/weir/internal/terminal"
	"github.com/weir-dev/weir/limiter/rules"
)

// printBanner prints the addresses of a standalone limiter and a command to try it.
func printBanner(w io.Writer, p *process, f serveFlags, set rules.Set, redisUsable bool) {
	counters := "in this process"
	if f.redis != "" {
		counters = "in " + flags.RedisPlace(f.redis)
	}
	if !redisUsable {
		counters += " as soon as it is available"
	}
	envoy := ""
	if p.grpc != nil {
		envoy = "gRPC for Envoy at " + localAddress(p.grpc) + ", "
	}
	_, _ = terminal.Printf(w, "weir enforces %s from %s at %s/v1/check, counters %s; %smetrics and probes at %s\n",
		cli.Count(len(set.Rules), "policy", "policies"), f.policies, p.checkURL(), counters, envoy, localURL(p.ops))
	if addresses, flags := onAllInterfaces(p); len(addresses) > 0 {
		_, _ = terminal.Printf(w, "listening on all interfaces: %s; to restrict this, set %s\n", strings.Join(addresses, ", "), strings.Join(flags, ", "))
	}
	_, _ = terminal.Printf(w, "try: %s\n", curlCommand(p.checkURL(), set))
}

// onAllInterfaces returns the addresses of the listeners that accept connections on all interfaces, and their flags.
func onAllInterfaces(p *process) (addresses, flags []string) {
	for _, socket := range []struct {
		flag     string
		listener net.Listener
	}{
		{"--listen", p.check}, {"--grpc-listen", p.grpc}, {"--ops-listen", p.ops}, {"--throttle-listen", p.throttle},
	} {
		if socket.listener != nil && isUnspecified(socket.listener) {
			addresses, flags = append(addresses, socket.listener.Addr().String()), append(flags, socket.flag)
		}
	}
	return addresses, flags
}

// curlCommand returns a command for a request that the first enforced rule counts.
func curlCommand(base string, set rules.Set) string {
	body := example{Domain: "default", ClientIP: "203.0.113.7"}
	for i := range set.Rules {
		if rule := &set.Rules[i]; !rule.Shadow && rule.Match.Expression == "" && rule.Match.Kubernetes == nil {
			body = exampleRequest(rule)
			break
		}
	}
	text, err := json.Marshal(body)
	if err != nil {
		panic(fmt.Sprintf("weir: encoding plain data: %v", err))
	}
	quoted := strings.ReplaceAll(string(text), "'", `'\''`)
	return fmt.Sprintf("curl -i %s/v1/check -d '%s'", base, quoted)
}

// example is the body of a check in the banner.
type example struct {
	Domain   string              `json:"domain"`
	Method   string              `json:"method,omitempty"`
	Host     string              `json:"host,omitempty"`
	Path     string              `json:"path,omitempty"`
	Query    map[string][]string `json:"query,omitempty"`
	Headers  map[string]string   `json:"headers,omitempty"`
	ClientIP string              `json:"clientIP,omitempty"`
	Claims   map[string]any      `json:"claims,omitempty"`
	// Descriptors are lists of entries with key and value.
	Descriptors [][]map[string]string `json:"descriptors,omitempty"`
}

// exampleRequest returns a request that rule matches. It ignores expressions, for which a matching request cannot be derived.
func exampleRequest(rule *rules.Rule) example {
	identifier := "acme"
	if rule.Identifier.Address {
		identifier = "203.0.113.7"
	}
	e := example{Domain: domainOf(rule), Path: "/", Headers: map[string]string{}}
	if len(rule.Match.Methods) > 0 {
		e.Method = rule.Match.Methods[0]
	}
	if len(rule.Match.Hosts) > 0 {
		e.Host = strings.Replace(rule.Match.Hosts[0], "*", "www", 1)
	}
	for _, path := range rule.Match.Paths {
		if path.Type != rules.PathRegex {
			e.Path = path.Value
			break
		}
	}
	for _, header := range rule.Match.Headers {
		if header.Type != rules.HeaderRegex && !header.Invert {
			e.Headers[header.Name] = cmp.Or(header.Value, identifier)
		}
	}
	if len(rule.Match.CIDRs) > 0 {
		e.ClientIP, _, _ = strings.Cut(rule.Match.CIDRs[0], "/")
	}
	if len(rule.Match.Descriptors) > 0 {
		var entries []map[string]string
		for _, entry := range rule.Match.Descriptors {
			entries = append(entries, map[string]string{"key": entry.Key, "value": cmp.Or(entry.Value, identifier)})
		}
		e.Descriptors = [][]map[string]string{entries}
	}
	e.setIdentifier(rule, identifier)
	return e
}

// setIdentifier sets the identifier in the field that the rule reads, unless the field is set.
func (e *example) setIdentifier(rule *rules.Rule, identifier string) {
	switch id := rule.Identifier; id.From {
	case rules.FromClientIP:
		e.ClientIP = cmp.Or(e.ClientIP, addressOutside(rule.Match.ExceptCIDRs))
	case rules.FromClaim:
		e.Claims = map[string]any{id.Name: identifier}
	case rules.FromDescriptor:
		if len(e.Descriptors) == 0 {
			e.Descriptors = [][]map[string]string{{{"key": id.Name, "value": identifier}}}
		}
	case rules.FromHeader:
		if _, ok := e.Headers[id.Name]; !ok {
			e.Headers[id.Name] = identifier
		}
	case rules.FromQuery:
		e.Query = map[string][]string{id.Name: {identifier}}
	case rules.FromCookie:
		e.Headers["cookie"] = id.Name + "=" + identifier
	case rules.FromEndpoint, rules.FromExpression:
	}
}

// addressOutside returns a documentation address that is outside all networks.
func addressOutside(networks []string) string {
	for _, address := range []string{"203.0.113.7", "198.51.100.7", "192.0.2.7"} {
		within := func(network string) bool {
			prefix, err := netip.ParsePrefix(network)
			return err == nil && prefix.Contains(netip.MustParseAddr(address))
		}
		if !slices.ContainsFunc(networks, within) {
			return address
		}
	}
	return "2001:db8::7"
}

// domainOf returns a domain that rule applies to.
func domainOf(rule *rules.Rule) string {
	if len(rule.Domains) > 0 {
		return rule.Domains[0]
	}
	return cmp.Or(rule.Domain, "default")
}
