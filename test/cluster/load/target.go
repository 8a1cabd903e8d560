package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
)

// target is a kind of request that the generator repeats.
type target struct {
	share   int // weight of this target among all targets
	path    string
	tenants int
}

func (g *generator) add(text string) error {
	var t target
	if _, err := fmt.Sscanf(text, "%d %s %d", &t.share, &t.path, &t.tenants); err != nil {
		return fmt.Errorf("%q invalid: must be SHARE PATH TENANTS: %w", text, err)
	}
	if t.share < 1 || t.tenants < 1 {
		return fmt.Errorf("%q: SHARE and TENANTS must be positive", text)
	}
	g.targets = append(g.targets, t)
	return nil
}

func (g *generator) check() error {
	switch {
	case g.url == "" || (g.domain == "") != g.gateway:
		return errors.New("-url is required, and either -domain or -gateway")
	case len(g.targets) == 0:
		return errors.New("at least one -request is required")
	case g.rate < 1 || g.timeout <= 0 || g.requests < 0 || g.closeShare < 0 || g.closeShare > 1:
		return errors.New("-rate and -timeout must be positive, -requests must not be negative, -close must be between 0 and 1")
	default:
		return nil
	}
}

// call is a request of a tenant.
type call struct{ path, tenant string }

// body returns the body of a check.
func (c call) body(domain string) string {
	return fmt.Sprintf(`{"domain":%q,"method":"GET","path":%q,"headers":{"x-tenant-id":%q}}`, domain, c.path, c.tenant)
}

// next returns the next request.
func (g *generator) next(random *rand.Rand) call {
	total := 0
	for _, t := range g.targets {
		total += t.share
	}
	at := random.IntN(total)
	var chosen target
	for _, chosen = range g.targets {
		if at -= chosen.share; at < 0 {
			break
		}
	}
	return call{chosen.path, "tenant-" + strconv.Itoa(random.IntN(chosen.tenants))}
}
