// Package replaycommand has the command weir replay.
package replaycommand

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weir-dev/weir/cmd/internal/cli"
	"github.com/weir-dev/weir/internal/accesslog"
	"github.com/weir-dev/weir/internal/accesslog/format"
	"github.com/weir-dev/weir/internal/replay"
	"github.com/weir-dev/weir/internal/replay/report"
	"github.com/weir-dev/weir/internal/replay/result"
	"github.com/weir-dev/weir/limiter"
)

// exitDenied is the exit status if policies deny more than --max-denied.
const exitDenied = 3

// maxTop is the number of identifiers in a result.
const maxTop = 100

// defaultShare is what a suggested limit may deny.
const defaultShare = "0.1%"

// replayFlags are the flags of weir replay.
type replayFlags struct {
	policies, before string
	domain           string
	hashKey          string
	limiter          string

	format        string
	fields        []string
	maxBad        string
	excludeDenied bool

	limits      []string
	suggest     string
	suggestOf   string
	axis        string
	prefix      string
	maxDenied   string
	output      string
	report      string
	identifiers int

	isSet func(flag string) bool // nil without a command line
}

// Command returns weir replay.
func Command() *cobra.Command {
	var f replayFlags
	cmd := &cobra.Command{
		Use:   "replay --policies DIR LOG…",
		Short: "Find out what policies would have denied, from an access log",
		Long: `Decide the requests of access logs under policies, at the times in the logs, and print what the policies would have denied.

LOG is a file, a pattern such as 'logs/*.gz', or "-" for standard input. Files can be compressed with gzip or zstd, and are merged by time. Formats are
detected: nginx combined, Envoy, HAProxy, Traefik, AWS ALB, audit logs of Kubernetes, decision logs of Weir, and lines of
JSON. Requests are decided with the code of a limiter, one after another at the times of the log. Leases, outages and the
delays of leaky buckets are not replayed: a request that would have to wait is denied.

Requests that were denied when they were logged are part of the demand, and are decided again, unless --exclude-denied is
set. If the files with the policies have a Limiter, its identity table applies, and the addresses of clients are those that it
finds behind its trusted proxies. Policies count by what the log has. A log without headers has no tenant: add the header to the log, and name its
field with --map.

Ctrl-C prints what is known up to then.

Exit status: 0 if the log was replayed, 1 if it could not be or no request matched a policy, 2 if the command line is invalid, 3 if policies deny more
than --max-denied, 130 after Ctrl-C.`,
		Example: `  weir replay --policies policies/ access.log
  weir replay --policies policies/ --limits 50,100,200 --suggest 'logs/*.gz'
  weir replay --policies after/ --policies-before before/ --max-denied 0.1% access.log
  weir replay --axis Tenant --path-prefix /v1 --map header:x-tenant-id=.tenant access.json`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cli.UsageError(errors.New("missing argument: name the access logs, or - for standard input; see weir replay --help"))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			f.isSet = cmd.Flags().Changed
			return f.run(cmd.Context(), cli.StreamsOf(cmd), args)
		},
	}
	f.add(cmd)
	return cmd
}

// add adds the flags to the command.
func (f *replayFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.policies, "policies", "", "directory or file with the policies; required without --axis")
	flags.StringVar(&f.before, "policies-before", "", "directory or file with the policies before a change: also print what the change denies and allows")
	flags.StringVar(&f.domain, "domain", "", "domain of the requests, which is the namespace of their policies; by default that of the policies, if they have one")
	flags.StringVar(&f.hashKey, "hash-key", "", "file with the key that hashes API keys, as for weir serve; by default a random key")
	flags.StringVar(&f.limiter, "limiter", "",
		"Limiter in --policies whose identity table, trusted proxies and exemptions apply, as NAMESPACE/NAME; needed if several differ")
	flags.StringVar(&f.format, "format", "", "format of the logs; detected by default")
	flags.StringArrayVar(&f.fields, "map", nil,
		"what a field of the request comes from, such as method=.req.method,header:x-tenant-id=.tenant or header:x-tenant-id=path:2")
	flags.StringVar(&f.maxBad, "max-bad", "1%", "share of the lines that can be unreadable")
	flags.BoolVar(&f.excludeDenied, "exclude-denied", false, "leave out requests that were denied with status 429 when they were logged")
	flags.StringSliceVar(&f.limits, "limits", nil, "limits to try in place of that of each policy, such as 50,100,200")
	flags.StringVar(&f.suggest, "suggest", "", "suggest the smallest limits that deny at most this share")
	flags.Lookup("suggest").NoOptDefVal = defaultShare
	flags.StringVar(&f.suggestOf, "suggest-of", "identifiers", "what --suggest is a share of: identifiers or requests")
	flags.StringVar(&f.axis, "axis", "", "propose a policy for an axis without one: IP, Tenant, User, APIKey or Endpoint")
	flags.StringVar(&f.prefix, "path-prefix", "", "path prefix of the policy that --axis proposes")
	flags.StringVar(&f.maxDenied, "max-denied", "", "exit with status 3 if policies, also in Shadow mode, deny a larger share of the requests, such as 0.1%")
	flags.StringVarP(&f.output, "output", "o", "text", "output format: text or json")
	flags.StringVar(&f.report, "report", "", "file to write an HTML report to")
	flags.IntVar(&f.identifiers, "top", 10, "number of identifiers that the text lists for each policy, at most 100")
	cli.CompleteFlags(cmd, map[string]cli.Values{
		"output": cli.Fixed("text", "json"), "suggest-of": cli.Fixed("identifiers", "requests"),
		"axis": cli.Fixed("IP", "Tenant", "User", "APIKey", "Endpoint"),
	})
}

// shares are the flags that are shares.
type shares struct{ maxBad, maxDenied, suggest float64 }

// validate returns what the flags mean.
func (f *replayFlags) validate() (s shares, limits []int64, err error) {
	switch {
	case f.output != "text" && f.output != "json":
		return s, nil, fmt.Errorf("--output %q is invalid: must be text or json", f.output)
	case f.suggestOf != "identifiers" && f.suggestOf != "requests":
		return s, nil, fmt.Errorf("--suggest-of %q is invalid: must be identifiers or requests", f.suggestOf)
	case f.policies == "" && f.axis == "":
		return s, nil, errors.New("--policies is required: set it to the directory with the policies, or propose a policy with --axis")
	case f.prefix != "" && f.axis == "":
		return s, nil, errors.New("--path-prefix has no effect without --axis")
	case f.limiter != "" && f.policies == "":
		return s, nil, errors.New("--limiter has no effect without --policies")
	case f.identifiers < 0 || f.identifiers > maxTop:
		return s, nil, fmt.Errorf("--top %d is invalid: must be from 0 to %d", f.identifiers, maxTop)
	case f.isSet != nil && f.isSet("suggest-of") && f.suggest == "" && f.axis == "":
		return s, nil, errors.New("--suggest-of has no effect without --suggest or --axis")
	}
	if f.format != "" {
		if _, err := format.Named(f.format); err != nil {
			return s, nil, fmt.Errorf("--format: %w", err)
		}
	}
	suggest := f.suggest
	if f.isSet == nil || !f.isSet("suggest") {
		suggest = cmp.Or(suggest, defaultShare)
	}
	for _, one := range []struct {
		name, text string
		share      *float64
	}{{"max-bad", f.maxBad, &s.maxBad}, {"max-denied", f.maxDenied, &s.maxDenied}, {"suggest", suggest, &s.suggest}} {
		if one.text == "" && (f.isSet == nil || !f.isSet(one.name)) { // an empty variable of a script must not switch a bound off
			continue
		}
		if *one.share, err = shareOf(one.text); err != nil {
			return s, nil, fmt.Errorf("--%s %q is invalid: %w", one.name, one.text, err)
		}
	}
	for _, text := range f.limits {
		n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
		if err != nil || n < 1 || n > limiter.MaxUnits {
			return s, nil, fmt.Errorf("--limits: %q is invalid: must be a whole number from 1 to %d", text, limiter.MaxUnits)
		}
		limits = append(limits, n)
	}
	slices.Sort(limits)
	return s, slices.Compact(limits), nil
}

// shareOf returns the share that a text such as 0.1% means.
func shareOf(text string) (float64, error) {
	number, isPercent := strings.CutSuffix(strings.TrimSpace(text), "%")
	n, err := strconv.ParseFloat(number, 64)
	if !isPercent || err != nil || !(n >= 0 && n <= 100) {
		return 0, errors.New("must be a percentage from 0% to 100%, for example 0.1%")
	}
	return n / 100, nil
}

// checkShare rejects a share in the place of a log, as in --suggest 5%: a flag that needs no value does not read the next argument.
func checkShare(log string) error {
	if _, err := shareOf(log); err != nil {
		return nil //nolint:nilerr // it is a file
	}
	if _, err := os.Stat(log); err == nil {
		return nil
	}
	return fmt.Errorf("%s is no log: if it is the share of --suggest, write --suggest=%s", log, log)
}

// windows are those of suggestions.
func windows() []time.Duration { return []time.Duration{time.Minute, 10 * time.Minute, time.Hour} }

func (f *replayFlags) run(ctx context.Context, streams cli.Streams, logs []string) error {
	shares, limits, err := f.validate()
	if err == nil && f.suggest == defaultShare {
		err = checkShare(logs[0])
	}
	if err != nil {
		return cli.UsageError(err)
	}
	if err := cli.CheckOutput(f.report, append([]string{f.policies, f.before, f.hashKey}, logs...)...); err != nil {
		return cli.UsageError(fmt.Errorf("--report: %w", err))
	}
	l, err := f.load(streams)
	if err != nil {
		return err
	}
	options := l.options
	options.Limits, options.ExcludeDenied = limits, f.excludeDenied
	if f.suggest != "" || f.axis != "" {
		options.Suggest = &replay.Suggest{Share: shares.suggest, OfRequests: f.suggestOf == "requests", Windows: windows()}
	}
	found, err := f.replay(ctx, streams, l, logs)
	if err != nil {
		return err
	}
	if err := l.proposal.propose(found); err != nil {
		return err
	}
	var written error
	if f.report != "" { // before the text, because the reader of a pipe can end the command
		if written = cli.WriteFile(f.report, func(w io.Writer) error { return report.Write(w, found) }); written != nil {
			written = fmt.Errorf("--report: %w", written)
		}
	}
	if err := errors.Join(f.print(streams, found), written); err != nil { // the text is printed also without the report
		return err
	}
	if err := f.status(found, shares); err != nil {
		return err
	}
	if found.Total.Matched == 0 && (found.Difference == nil || found.Difference.Before.Matched == 0) {
		return errors.New("no request matched a policy, so nothing was decided: see the reason of each policy")
	}
	return nil
}

// replay replays the logs. If ctx ends, the result is that of the requests before.
func (f *replayFlags) replay(ctx context.Context, streams cli.Streams, l *loaded, logs []string) (*result.Result, error) {
	r, err := replay.New(*l.options)
	if err != nil {
		return nil, err
	}
	fields, err := format.ParseMap(f.fields)
	if err != nil {
		return nil, cli.UsageError(fmt.Errorf("--map: %w", err))
	}
	settings := replay.Reads(l.options)
	settings.Map = fields
	l.clients.set(&settings)
	reader, err := accesslog.Open(ctx, logs, accesslog.Options{Format: f.format, Settings: settings, Stdin: streams.In})
	if err != nil && errors.Is(err, ctx.Err()) {
		return nil, &cli.ExitError{Code: cli.ExitInterrupted, Err: errors.New("interrupted before a line was read")}
	}
	if err != nil {
		return nil, err
	}
	defer reader.Close()
	l.clients.begin()
	end := showProgress(streams.Err, reader, r)
	err = r.Run(ctx, reader)
	end()
	interrupted := err != nil && ctx.Err() != nil && errors.Is(err, ctx.Err())
	if err != nil && !interrupted {
		return nil, err
	}
	if interrupted && r.Requests() == 0 {
		return nil, &cli.ExitError{Code: cli.ExitInterrupted, Err: errors.New("interrupted before a request was decided")}
	}
	found, err := r.Result(ctx)
	if err != nil {
		return nil, err
	}
	found.Interrupted = found.Interrupted || interrupted
	describeInput(found, reader.Stats())
	found.Notes = append(found.Notes, l.notes...)
	l.clients.note(found)
	return found, nil
}

// print writes the result.
func (f *replayFlags) print(streams cli.Streams, found *result.Result) error {
	if f.output == "json" {
		encoder := json.NewEncoder(streams.Out)
		encoder.SetIndent("", "  ")
		return encoder.Encode(found)
	}
	return printText(streams.Out, found, f.identifiers)
}

// describeInput sets what was read, and notes what a reader of the result must know about it.
func describeInput(found *result.Result, stats accesslog.Stats) {
	input := &found.Input
	input.Files = []result.File{}
	precision := time.Duration(0)
	for _, file := range stats.Files {
		input.Files = append(input.Files, result.File{Name: file.Path, Format: file.Format.Name})
		if file.Fractions == 0 { // a format with times as they are configured can have fractions of a second
			precision = max(precision, file.Format.Precision)
		}
	}
	input.Lines, input.Bytes, input.Bad = stats.Lines, stats.Bytes, stats.Bad
	input.Late += stats.Late
	for _, bad := range stats.BadLines {
		input.Errors = append(input.Errors, result.Bad{File: bad.File, Line: bad.Line, Reason: bad.Reason, Text: bad.Text})
	}
	for reason, n := range stats.Skipped {
		input.Skipped = append(input.Skipped, result.Skipped{Reason: string(reason), Lines: n})
	}
	slices.SortFunc(input.Skipped, func(a, b result.Skipped) int { return strings.Compare(a.Reason, b.Reason) })
	if precision >= time.Second {
		found.Notes = append(found.Notes, fmt.Sprintf("The log has times of %v. Requests of the same %v are decided at its beginning, so that "+
			"buckets and windows of a few seconds deny more than they would.", precision, precision))
	}
	found.Notes = append(found.Notes, headerAdvice(found.Policies, stats.Files)...)
	if stats.NoAddress > 0 {
		found.Notes = append(found.Notes, fmt.Sprintf("%d requests have no address of the client.", stats.NoAddress))
	}
	if input.Late > 0 {
		found.Notes = append(found.Notes, fmt.Sprintf("%d lines were out of order by more than could be sorted, and are decided later than they were.", input.Late))
	}
}

// headerAdvice returns how to have a header in the logs, for each of their formats, if a policy lacks the identifier of requests or matches none of them.
func headerAdvice(policies []result.Policy, files []accesslog.File) (notes []string) {
	if !slices.ContainsFunc(policies, func(p result.Policy) bool { return p.MissingIdentifier+p.FallbackIdentifier > 0 || p.Silent != "" }) {
		return nil
	}
	for _, file := range files {
		if file.Format.Advice == "" {
			continue
		}
		note := fmt.Sprintf("To have a header in a log of the format %s: %s.", file.Format.Name, file.Format.Advice)
		if !slices.Contains(notes, note) {
			notes = append(notes, note)
		}
	}
	return notes
}

// status returns the error for the exit status.
func (f *replayFlags) status(found *result.Result, s shares) error {
	bad := float64(found.Input.Bad) / float64(max(found.Input.Lines, 1))
	denied := float64(found.Total.DeniedByAny) / float64(max(found.Total.Requests, 1))
	switch {
	case bad > s.maxBad:
		return fmt.Errorf("%d of %d lines could not be read, which is more than --max-bad %s. Correct the log, name its format with --format, or raise --max-bad",
			found.Input.Bad, found.Input.Lines, f.maxBad)
	case found.Interrupted:
		return &cli.ExitError{Code: cli.ExitInterrupted, Err: errors.New("interrupted: the result is that of the requests before")}
	case found.Total.Requests == 0:
		return errors.New("the log has no requests, so nothing was decided")
	case f.maxDenied != "" && denied > s.maxDenied:
		return &cli.ExitError{Code: exitDenied, Err: fmt.Errorf("policies deny %s of the requests, which is more than --max-denied %s", percent(denied), f.maxDenied)}
	default:
		return nil
	}
}
