package replaycommand

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/weir-dev/weir/cmd/internal/cli"
	"github.com/weir-dev/weir/internal/replay/result"
	"github.com/weir-dev/weir/limiter/rules"
)

// Comparison replays logs under two sets of policies.
type Comparison struct {
	Before, After string // paths of the policies
	Logs          []string
	// Fields, Format, Domain and Limiter are the flags --map, --format, --domain and --limiter of weir replay.
	Fields                  []string
	Format, Domain, Limiter string
}

// Run returns what the replay found out. Its Difference is not nil.
func (c Comparison) Run(ctx context.Context, streams cli.Streams) (*result.Result, error) {
	f := replayFlags{
		policies: c.After, before: c.Before, fields: c.Fields, format: c.Format, domain: c.Domain, limiter: c.Limiter,
		maxBad: "1%", output: "text", suggestOf: "identifiers",
	}
	shares, _, err := f.validate()
	if err != nil {
		return nil, cli.UsageError(err)
	}
	l, err := f.load(streams)
	if err != nil {
		return nil, err
	}
	found, err := f.replay(ctx, streams, l, c.Logs)
	if err == nil {
		err = f.status(found, shares)
	}
	if err != nil {
		return nil, fmt.Errorf("replay: %w", err)
	}
	if found.Difference == nil {
		return nil, errors.New("replay: there is no difference to show")
	}
	return found, nil
}

// Notices returns what the requests of a policy would notice, one sentence each. The policy can have several rates.
func Notices(found *result.Result, policy string) (notices []string) {
	d, requests := found.Difference, found.Total.Requests
	var denied, allowed, deniedOf, allowedOf int64
	for _, p := range d.Policies {
		if rules.WithoutRate(p.Name) == policy {
			denied, allowed = denied+p.NewlyDenied, allowed+p.NewlyAllowed
			deniedOf, allowedOf = max(deniedOf, p.IdentifiersDenied), max(allowedOf, p.IdentifiersAllowed)
		}
	}
	for _, one := range []struct {
		what                  string
		requests, identifiers int64
		top                   []result.Affected
	}{{"denies", denied, deniedOf, d.TopDenied}, {"allows", allowed, allowedOf, d.TopAllowed}} {
		if one.requests == 0 {
			continue
		}
		notice := fmt.Sprintf("of %d requests in the log, it newly %s %d, of %s", requests, one.what, one.requests,
			cli.Count(int(one.identifiers), "identifier", "identifiers"))
		if at := slices.IndexFunc(one.top, func(a result.Affected) bool { return rules.WithoutRate(a.Policy) == policy }); at >= 0 {
			notice += fmt.Sprintf("; most of them of %q (%d)", one.top[at].Identifier, one.top[at].Requests)
		}
		notices = append(notices, notice)
	}
	if reason := silence(found, policy); reason != "" && notices == nil {
		return []string{fmt.Sprintf("of %d requests in the log, it matches no request: %s", requests, reason)}
	}
	if notices == nil {
		notices = []string{fmt.Sprintf("of %d requests in the log, it decides all as before", requests)}
	}
	for i := range found.Policies {
		if p := &found.Policies[i]; rules.WithoutRate(p.Name) == policy && p.FallbackIdentifier > 0 {
			return append(notices, fmt.Sprintf("%d of the requests do not have its first identifier, and are counted by another one, such as the address: "+
				"add it to the log", p.FallbackIdentifier))
		}
	}
	return notices
}

// silence returns why a policy of the later side matches no request, "" if it matches some.
func silence(found *result.Result, policy string) (reason string) {
	for i := range found.Policies {
		if p := &found.Policies[i]; rules.WithoutRate(p.Name) == policy {
			if p.Matched > 0 {
				return ""
			}
			reason = p.Silent
		}
	}
	return reason
}
