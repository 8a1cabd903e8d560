package matching_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/limiter/rules/reading"
)

// hostileRules are the rules of one domain that a hostile request is compared with: 20 path prefixes, each in its own index of a host
// that all requests match, 20 wildcard hosts, and 20 regular expressions.
func hostileRules(prefixes, hosts, expressions int) []rules.Rule {
	var list []rules.Rule
	add := func(name string, match rules.Match) {
		r := rule(fmt.Sprintf("shop/%s%03d", name, len(list)))
		r.Match = match
		list = append(list, r)
	}
	for i := range expressions {
		add("c", path(rules.PathRegex, fmt.Sprintf(`/(a|b|ab)*[a-z/]{0,%d}x`, 20+i)))
	}
	for i := range hosts {
		match := path(rules.PathPrefix, fmt.Sprintf("/v%d/search", i))
		match.Hosts = []string{"*" + strings.Repeat(".a", i+1)}
		add("h", match)
	}
	for i := range prefixes {
		add("p", path(rules.PathPrefix, fmt.Sprintf("/v%d/search", i)))
	}
	return list
}

// hostile returns a request whose path and host have the size in bytes.
func hostile(size int) *rules.Request {
	half := strings.Repeat("/a", size/2)
	return &rules.Request{Domain: "shop", Method: "GET", Path: half, Host: "x" + strings.Repeat(".a", size/2), Headers: map[string]string{
		"x-tenant-id": strings.Repeat("é", size/2), "cookie": strings.Repeat("a=;", size/3),
	}}
}

func BenchmarkHostile(b *testing.B) {
	for _, set := range []struct {
		name                         string
		prefixes, hosts, expressions int
	}{{"20 prefixes", 20, 0, 0}, {"20 hosts", 0, 20, 0}, {"20 expressions", 0, 0, 20}} {
		x := index(b, hostileRules(set.prefixes, set.hosts, set.expressions)...)
		for _, size := range []int{64, 1 << 10, 8 << 10, 60 << 10} {
			req := hostile(size)
			if set.hosts == 0 {
				req.Host = ""
			}
			b.Run(fmt.Sprintf("%s/%d bytes", set.name, size), func(b *testing.B) {
				for b.Loop() {
					x.Match(nil, req)
				}
			})
		}
	}
	matched := index(b, rule("shop/a")).Match(nil, hostile(60<<10))
	b.Run("a tenant of 60 KB", func(b *testing.B) {
		req := hostile(60 << 10)
		for b.Loop() {
			matched[0].Key(matched[0].Identify(req))
		}
	})
	cookie := rule("shop/a")
	cookie.Identifier = rules.Identifier{From: rules.FromCookie, Name: "session"}
	byCookie := index(b, cookie).Match(nil, hostile(60<<10))
	b.Run("cookies of 60 KB", func(b *testing.B) {
		req := hostile(60 << 10)
		for b.Loop() {
			byCookie[0].Identify(req)
		}
	})
	b.Run("NormalPath of 60 KB", func(b *testing.B) {
		text := strings.Repeat("/%61", 15<<10)
		for b.Loop() {
			reading.NormalPath(text)
		}
	})
	b.Run("NormalPath of 60 KB with an invalid escape", func(b *testing.B) {
		text := strings.Repeat("/%6z", 15<<10)
		for b.Loop() {
			reading.NormalPath(text)
		}
	})
}
