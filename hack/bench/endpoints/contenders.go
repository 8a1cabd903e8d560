package main

import "fmt"

// The rows of the table.
const (
	rlsBaseline   = "RLS: baseline"
	rlsKnown      = "RLS: known denials"
	rlsRedis      = "RLS: through Redis"
	checkBaseline = "POST /v1/check: baseline"
	checkKnown    = "POST /v1/check: known denials"
	checkRedis    = "POST /v1/check: through Redis"
	authBaseline  = "GET /v1/auth: baseline"
	authKnown     = "GET /v1/auth: known denials"
	authRedis     = "GET /v1/auth: through Redis"
)

// contender is a row of the table: a server and one kind of request.
type contender struct {
	name     string
	baseline string // the row that it is compared with
	server   *server
	ask      ask
	// known fills the denial cache of the server with all keys before the measurement.
	known bool
	// allowed is the expected result of each answer.
	allowed bool
}

// newContenders returns all rows. Each endpoint has a limiter of its own, because the denials that one fills before its turn must not
// be in the cache of another.
func newContenders(s settings, baseline *server, limiters [3]*server) ([]contender, error) {
	var all []contender
	for i, endpoint := range []struct {
		open                   func(at *server, s settings, domain string) (ask, error)
		baseline, known, redis string
	}{
		{openRLS, rlsBaseline, rlsKnown, rlsRedis}, {openCheck, checkBaseline, checkKnown, checkRedis}, {openAuth, authBaseline, authKnown, authRedis},
	} {
		for _, c := range []struct {
			contender
			domain string
		}{
			{contender{name: endpoint.baseline, server: baseline}, deniedDomain},
			{contender{name: endpoint.known, server: limiters[i], known: true}, deniedDomain},
			{contender{name: endpoint.redis, server: limiters[i], allowed: true}, allowedDomain},
		} {
			if !s.only.MatchString(c.name) {
				continue
			}
			ask, err := endpoint.open(c.server, s, c.domain)
			if err != nil {
				return nil, err
			}
			c.contender.ask, c.contender.baseline = ask, endpoint.baseline
			all = append(all, c.contender)
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("-only %s: it matches no row", s.only)
	}
	return all, nil
}
