package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
)

// question is what is asked again and again.
type question struct {
	share   int // how often, beside the others
	path    string
	tenants int
}

func (g *generator) add(text string) error {
	var q question
	if _, err := fmt.Sscanf(text, "%d %s %d", &q.share, &q.path, &q.tenants); err != nil {
		return fmt.Errorf("%q is not of the form SHARE PATH TENANTS: %w", text, err)
	}
	if q.share < 1 || q.tenants < 1 {
		return fmt.Errorf("%q: want a positive share of at least one tenant", text)
	}
	g.questions = append(g.questions, q)
	return nil
}

func (g *generator) check() error {
	switch {
	case g.url == "" || g.domain == "":
		return errors.New("-url and -domain are required")
	case len(g.questions) == 0:
		return errors.New("nothing to -ask")
	case g.rate < 1 || g.patience <= 0 || g.requests < 0 || g.leave < 0 || g.leave > 1:
		return errors.New("-rate and -patience take positive numbers, -requests none below 0, -leave a share from 0 to 1")
	default:
		return nil
	}
}

// draw makes the body of the next request.
func (g *generator) draw(random *rand.Rand) string {
	total := 0
	for _, q := range g.questions {
		total += q.share
	}
	at := random.IntN(total)
	var chosen question
	for _, chosen = range g.questions {
		if at -= chosen.share; at < 0 {
			break
		}
	}
	tenant := "tenant-" + strconv.Itoa(random.IntN(chosen.tenants))
	return fmt.Sprintf(`{"domain":%q,"method":"GET","path":%q,"headers":{"x-tenant-id":%q}}`, g.domain, chosen.path, tenant)
}
