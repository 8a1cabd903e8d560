package main

import "fmt"

// The rows of the table.
const (
	rlsFloor   = "RLS: floor"
	rlsKnown   = "RLS: known denials"
	rlsRedis   = "RLS: through Redis"
	checkFloor = "POST /v1/check: floor"
	checkKnown = "POST /v1/check: known denials"
	checkRedis = "POST /v1/check: through Redis"
	authFloor  = "GET /v1/auth: floor"
	authKnown  = "GET /v1/auth: known denials"
	authRedis  = "GET /v1/auth: through Redis"
)

// contender is a row: a server, asked in one way.
type contender struct {
	name   string
	floor  string // the row that it is compared with
	server *server
	ask    ask
	// known: the server is to know a denial of every key before it is asked.
	known bool
	// allowed is what every answer has to say.
	allowed bool
}

// newContenders are all rows. Every endpoint has a limiter of its own, so that what one is told before its turn another does
// not know already.
func newContenders(s settings, floor *server, limiters [3]*server) ([]contender, error) {
	var all []contender
	for i, endpoint := range []struct {
		open                func(at *server, s settings, domain string) (ask, error)
		floor, known, redis string
	}{
		{openRLS, rlsFloor, rlsKnown, rlsRedis}, {openCheck, checkFloor, checkKnown, checkRedis}, {openAuth, authFloor, authKnown, authRedis},
	} {
		for _, c := range []struct {
			contender
			domain string
		}{
			{contender{name: endpoint.floor, server: floor}, deniedDomain},
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
			c.contender.ask, c.contender.floor = ask, endpoint.floor
			all = append(all, c.contender)
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("-only %s: it matches no row", s.only)
	}
	return all, nil
}
