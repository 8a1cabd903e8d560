package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"

	"github.com/weir-dev/weir/cmd/weir/explain"
	"github.com/weir-dev/weir/internal/policyfile"
	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/admin"
	"github.com/weir-dev/weir/limiter/engine"
	"github.com/weir-dev/weir/limiter/exempt"
	"github.com/weir-dev/weir/limiter/memstore"
	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/webhook/throttle"
)

// exitDenied is the exit status of weir explain for a request that would be denied.
const exitDenied = 3

// explainFlags are the flags of weir explain.
type explainFlags struct {
	policies string
	limiter  limiterFile
	hashKey  string
	prefix   string
	output   string
	all      bool
	admin    adminClientFlags
	request  requestFlags
	write    writeRequestFlags
}

func explainCommand() *cobra.Command {
	var f explainFlags
	cmd := &cobra.Command{
		Use:   "explain [REQUEST]",
		Short: "Explain which policies match a request, and why others do not",
		Long: `Explain the decision about a request: every policy for its domain, whether it matches and if not on which field, the
identifier and where it comes from, the tier, the cost, the counter, and which policy decides. Nothing is counted.

The request comes from flags, from REQUEST, or from both; flags take precedence. REQUEST is a file, or "-" for standard
input, with one of: the JSON body of POST /v1/check, a curl command, a HAR file (the first request), or a line of an access
log in the combined format or in Envoy's default format. Only the JSON contains the domain: set --domain otherwise.
With --filename the request is a write to the Kubernetes API.

The policies and the counters are those of a Limiter in the cluster, or with --admin those of a running limiter without
Kubernetes. With --policies, the policies are the *.yaml and *.yml files in a directory or a file, and no server is needed:
the counters are empty, as on a new limiter. Identifiers come from where the identity table of --limiter-file states. Labels and
tenants of namespaces are unknown. An invalid policy is reported on standard error and left out.

Exit status: 0 if the request would be allowed, 1 if it cannot be explained, 2 if the command line is invalid, 3 if the
request would be denied.`,
		Example: `  weir explain --policies policies/ --domain shop --path /v1/search --header 'x-tenant-id: acme'
  weir explain --policies policies/ request.json -o wide
  kubectl weir explain --domain shop --path /v1/search --header 'x-tenant-id: acme'
  weir explain --admin unix:/run/weir/admin.sock request.json
  pbpaste | weir explain --policies policies/ --domain shop -
  weir explain --policies policies/ --filename job.yaml --as system:serviceaccount:shop:ci`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usageError(fmt.Errorf("unexpected argument %q: explain accepts one request; see weir explain --help", args[1]))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return runExplain(cmd.Context(), &f, args, streams{cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr()})
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.policies, "policies", "", "directory or file with the policies")
	f.limiter.add(flags)
	f.admin.add(flags)
	flags.StringVar(&f.hashKey, "hash-key", "",
		"file with the key with which limiters hash API keys, for the counter keys that are shown; empty uses a random key")
	flags.StringVar(&f.prefix, "prefix", "weir:", "prefix of the counter keys that are shown; that of a Limiter is weir:NAMESPACE/NAME:")
	addOutput(cmd, &f.output)
	flags.BoolVar(&f.all, "all", false, "also list the policies for other domains")
	f.request.add(flags)
	f.write.add(flags)
	completeEndpoint(cmd, &f.admin)
	completeFlags(cmd, map[string]values{"domain": f.admin.domains})
	return cmd
}

// streams are the standard streams of a command.
type streams struct {
	in       io.Reader
	out, err io.Writer
}

func runExplain(ctx context.Context, f *explainFlags, args []string, s streams) error {
	if err := validateOutput(f.output); err != nil {
		return err
	}
	if f.policies != "" && f.admin.address != "" {
		return usageError(errors.New("--policies and --admin exclude each other: explain with the policies in files, or with those of a limiter"))
	}
	body, err := f.body(args, s)
	if err != nil {
		return usageError(err)
	}
	x, err := f.explain(ctx, body, s)
	if err != nil {
		return err
	}
	if err := explain.Print(s.out, f.output, &x); err != nil {
		return err
	}
	if !x.Answer.Allowed {
		return &exitError{code: exitDenied}
	}
	return nil
}

// explain explains the request in body.
func (f *explainFlags) explain(ctx context.Context, body []byte, s streams) (x admin.Explanation, err error) {
	if f.policies == "" {
		return f.online(ctx, body, s)
	}
	explainer, err := f.offline(s)
	if err != nil {
		return x, err
	}
	x, bad := explainer.Explain(ctx, body, f.all)
	if bad != nil {
		return x, usageError(errors.New(bad.Detail))
	}
	return x, nil
}

// online asks running limiters. It returns the explanation of the first replica, and reports others that would answer differently.
func (f *explainFlags) online(ctx context.Context, body []byte, s streams) (admin.Explanation, error) {
	all, err := ask[admin.Explanation](ctx, &f.admin, http.MethodPost, fmt.Sprintf("/admin/v1/explain?all=%t", f.all), body, s.err)
	if err != nil {
		return admin.Explanation{}, err
	}
	for _, other := range all[1:] {
		if is, want := &other.value, &all[0].value; is.Answer.Allowed != want.Answer.Allowed || is.Revision != want.Revision {
			fmt.Fprintf(s.err, "replica %s would answer differently: allowed %t, policy %s, revision %s\n",
				other.replica, is.Answer.Allowed, is.Answer.Policy, is.Revision)
		}
	}
	return all[0].value, nil
}

// body returns the request as the body of POST /v1/check, or as an AdmissionReview.
func (f *explainFlags) body(args []string, s streams) ([]byte, error) {
	if f.write.filename != "" {
		if len(args) > 0 {
			return nil, errors.New("--filename and REQUEST exclude each other")
		}
		return f.write.review(s.in)
	}
	var r explain.Request
	if len(args) > 0 {
		text, err := readInput(args[0], s.in)
		if err != nil {
			return nil, err
		}
		var note string
		if r, note, err = explain.Read(text); err != nil {
			return nil, fmt.Errorf("%s: %w", args[0], err)
		}
		if note != "" {
			fmt.Fprintf(s.err, "note: %s\n", note)
		}
	}
	given, err := f.request.request()
	if err != nil {
		return nil, err
	}
	r.Merge(given)
	if r.Domain == "" {
		return nil, errors.New("the request has no domain: set --domain to the namespace whose policies apply")
	}
	return json.Marshal(r)
}

// offline returns an explainer of the policies in files, with empty counters.
func (f *explainFlags) offline(s streams) (*admin.Explainer, error) {
	key, err := (&counterFlags{hashKey: f.hashKey}).readHashKey()
	if err != nil {
		return nil, usageError(err)
	}
	if key == nil {
		key = limiter.RandomHashKey()
	}
	if err := validatePrefix(f.prefix); err != nil {
		return nil, usageError(err)
	}
	identity, err := f.limiter.identity()
	if err != nil {
		return nil, err
	}
	loader, err := policyfile.NewLoader(identity.WithHashKey(key))
	if err != nil {
		return nil, err
	}
	loaded, err := loader.Load(s.in, f.policies)
	if err != nil {
		return nil, usageError(err)
	}
	for _, problem := range loaded.Problems {
		fmt.Fprintf(s.err, "left out: %s\n", problem)
	}
	_, revision := rules.Encode(loaded.Rules)
	index, err := rules.NewIndex(loaded.Rules, revision, f.prefix, rules.WithHashKey(key))
	if err != nil {
		return nil, err
	}
	settings, err := throttle.NewSettings(throttle.Options{Exempt: exempt.With("", exempt.Lists{})})
	if err != nil {
		return nil, err
	}
	e := engine.New(memstore.New(time.Now), engine.SourceMemory, engine.NewMetrics(prometheus.NewRegistry()))
	e.Swap(index)
	return &admin.Explainer{Engine: e, ReadWrite: settings.Read}, nil
}
