package ask

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"

	"github.com/weir-dev/weir/cmd/internal/cli"
	"github.com/weir-dev/weir/cmd/internal/cli/explain"
	"github.com/weir-dev/weir/internal/policyfile"
	"github.com/weir-dev/weir/internal/policyfile/apischema"
	"github.com/weir-dev/weir/internal/terminal"
	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/admin"
	"github.com/weir-dev/weir/limiter/engine"
	"github.com/weir-dev/weir/limiter/exempt"
	"github.com/weir-dev/weir/limiter/memstore"
	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/limiter/rules/matching"
	"github.com/weir-dev/weir/webhook/throttle"
)

// exitDenied is the exit status of weir explain for a request that would be denied.
const exitDenied = 3

// explainFlags are the flags of weir explain.
type explainFlags struct {
	policies    string
	file        limiterFile
	hashKey     string
	prefix      string
	output      string
	allPolicies bool
	limiters    Limiters
	request     requestFlags
	write       writeRequestFlags
}

func explainCommand(limiters Limiters) *cobra.Command {
	f := explainFlags{limiters: limiters}
	cmd := &cobra.Command{
		Use:   "explain [REQUEST]",
		Short: "Explain which policies match a request, and why others do not",
		Long: `Explain the decision about a request: every policy for its domain, whether it matches and if not on which field, the
identifier and where it comes from, the tier, the cost, the counter, and which policy decides. Nothing is counted.

The request comes from flags, from REQUEST, or from both; flags take precedence. REQUEST is a file, or "-" for standard
input, with one of: the JSON body of POST /v1/check, a curl command, a HAR file (the first request), or a line of an access
log in the combined format or in Envoy's default format. Only the JSON contains the domain: set --domain otherwise.
With --filename the request is a write to the Kubernetes API.

The policies and the counters are those of running limiters: with kubectl weir those of a Limiter in the cluster, with weir those of
the process at --admin. With --policies, the policies are the *.yaml, *.yml and *.json files in a directory or a file, and no server is needed:
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
				return cli.UsageError(fmt.Errorf("unexpected argument %q: explain accepts one request; see weir explain --help", args[1]))
			}
			return nil
		},
		RunE: cli.Interruptible(func(cmd *cobra.Command, args []string) error {
			return runExplain(cmd.Context(), &f, args, cli.StreamsOf(cmd))
		}),
	}
	flags := cmd.Flags()
	flags.StringVar(&f.policies, "policies", "", "directory or file with the policies")
	f.file.add(flags)
	limiters.AddFlags(cmd)
	flags.StringVar(&f.hashKey, "hash-key", "",
		"file with the key with which limiters hash API keys, for the counter keys that are shown; empty uses a random key")
	flags.StringVar(&f.prefix, "prefix", "weir:", "prefix of the counter keys that are shown; that of a Limiter is weir:NAMESPACE/NAME:")
	AddOutput(cmd, &f.output)
	flags.BoolVar(&f.allPolicies, "all", false, "also list the policies for other domains")
	f.request.add(flags)
	f.write.add(flags)
	cli.CompleteFlags(cmd, map[string]cli.Values{"domain": domains(limiters)})
	return cmd
}

func runExplain(ctx context.Context, f *explainFlags, args []string, s cli.Streams) error {
	if err := ValidateOutput(f.output); err != nil {
		return err
	}
	if f.policies != "" && f.limiters.Selected() == nil && !f.limiters.Replicated() {
		return cli.UsageError(errors.New("--policies and --admin exclude each other: explain with the policies in files, or with those of a limiter"))
	}
	body, err := f.body(args, s)
	if err != nil {
		return cli.UsageError(err)
	}
	x, err := f.explain(ctx, body, s)
	if err != nil {
		return err
	}
	if err := explain.Print(s.Out, f.output, &x); err != nil {
		return err
	}
	if !x.Answer.Allowed {
		return &cli.ExitError{Code: exitDenied}
	}
	return nil
}

// explain explains the request in body.
func (f *explainFlags) explain(ctx context.Context, body []byte, s cli.Streams) (x admin.Explanation, err error) {
	if f.policies == "" {
		if f.limiters.Selected() != nil {
			return x, cli.UsageError(errors.New("set --policies to explain with policies in files, or --admin for those of a limiter. " +
				"To ask the limiters of a cluster, use kubectl weir"))
		}
		return f.online(ctx, body, s)
	}
	explainer, err := f.offline(s)
	if err != nil {
		return x, err
	}
	x, bad := explainer.Explain(ctx, body, f.allPolicies)
	if bad != nil {
		return x, cli.UsageError(errors.New(bad.Detail))
	}
	return x, nil
}

// online asks running limiters. It returns the explanation of the first replica, and reports others that would answer differently.
func (f *explainFlags) online(ctx context.Context, body []byte, s cli.Streams) (admin.Explanation, error) {
	explanations, err := call[admin.Explanation](ctx, f.limiters, http.MethodPost, fmt.Sprintf("/admin/v1/explain?all=%t", f.allPolicies), body, s.Err)
	if err != nil {
		return admin.Explanation{}, err
	}
	for _, other := range explanations[1:] {
		if given, first := &other.value, &explanations[0].value; given.Answer.Allowed != first.Answer.Allowed || given.Revision != first.Revision {
			terminal.Printf(s.Err, "replica %s would answer differently: allowed %t, policy %s, revision %s\n",
				other.replica, given.Answer.Allowed, given.Answer.Policy, given.Revision)
		}
	}
	return explanations[0].value, nil
}

// body returns the request as the body of POST /v1/check, or as an AdmissionReview.
func (f *explainFlags) body(args []string, s cli.Streams) ([]byte, error) {
	if f.write.filename != "" {
		if len(args) > 0 {
			return nil, errors.New("--filename and REQUEST exclude each other")
		}
		return f.write.review(s.In)
	}
	var r explain.Request
	if len(args) > 0 {
		text, err := readInput(args[0], s.In)
		if err != nil {
			return nil, err
		}
		var note string
		if r, note, err = explain.Read(text); err != nil {
			return nil, fmt.Errorf("%s: %w", args[0], err)
		}
		if note != "" {
			terminal.Printf(s.Err, "note: %s\n", note)
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
func (f *explainFlags) offline(s cli.Streams) (*admin.Explainer, error) {
	key, err := cli.ReadHashKey(f.hashKey)
	if err != nil {
		return nil, cli.UsageError(err)
	}
	if key == nil {
		key = limiter.RandomHashKey()
	}
	if err := cli.ValidatePrefix(f.prefix); err != nil {
		return nil, cli.UsageError(err)
	}
	identity, err := f.file.identity()
	if err != nil {
		return nil, err
	}
	schema, err := apischema.New()
	if err != nil {
		return nil, err
	}
	loader := policyfile.NewLoader(identity.WithHashKey(key), schema)
	loaded, err := loader.Load(s.In, f.policies)
	if err != nil {
		return nil, cli.UsageError(err)
	}
	for _, problem := range loaded.Problems {
		terminal.Printf(s.Err, "left out: %s\n", problem)
	}
	_, revision := rules.Encode(loaded.Rules)
	index, err := matching.NewIndex(loaded.Rules, revision, f.prefix, matching.WithHashKey(key))
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
