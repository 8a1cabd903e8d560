// Package files has the commands for files with policies, weir lint, weir import and weir hash, and the directory of weir serve.
package files

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/cmd/internal/cli"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/importer"
	"github.com/weir-dev/weir/internal/importer/envoyratelimit"
	"github.com/weir-dev/weir/internal/importer/objects"
	"github.com/weir-dev/weir/internal/policyfile"
	"github.com/weir-dev/weir/internal/policyfile/apischema"
	"github.com/weir-dev/weir/internal/terminal"
)

// ImportCommand converts the configuration of other rate limiters to policies.
func ImportCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "import",
		Short: "Convert the configuration of another rate limiter to policies",
		Long: `Convert the configuration of another rate limiter to policies, without a cluster.

Each subcommand reads one format. FILES are YAML and JSON files, directories (their *.yaml, *.yml and *.json files, including
subdirectories) and "-" for standard input. The policies are written to standard output, or with --output to a directory,
with one file for each namespace. They are validated as weir lint validates them. Above each policy, a comment names the
file and the line that it comes from.

What is not imported, or imported with a difference, is printed on standard error, with file and line:

  error           The source is invalid. Nothing is written.
  not imported    No policy expresses this part. Nothing is written, unless --partial is set.
  difference      The policy decides some requests in another way. Nothing is written, unless --accept differences or --partial is set.
  note            The policies decide the same, but something else differs, such as a metric.

A ConfigMap and a Secret are read as the configurations in their data, and documents as the objects inside of them, such as the values of a Helm chart.

Exit status: 0 if everything is imported without a difference that is not accepted, 1 if there are errors, other differences or parts that are not
imported, 2 if the command line is invalid or a file cannot be read.`,
		Args:                       cli.NoUnknownCommand,
		SuggestionsMinimumDistance: 2, // as weir itself
		RunE:                       func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(importEnvoyRateLimitCommand(), importKuadrantCommand(), importKongCommand())
	for _, source := range importSources() {
		source.roots = objects.Roots()
		cmd.AddCommand(importFrom(source))
	}
	return cmd
}

// importSources returns the sources without flags of their own: Kubernetes objects in files.
func importSources() []importSource {
	converter := func(convert func([]policyfile.File) *importer.Result) func([]policyfile.File) (*importer.Result, error) {
		return func(files []policyfile.File) (*importer.Result, error) { return convert(files), nil }
	}
	return []importSource{
		{
			name: "envoy-gateway", short: "Convert the global rate limits of Envoy Gateway's BackendTrafficPolicies",
			long: `Convert the global rate limits of Envoy Gateway's BackendTrafficPolicies to policies for ext_authz.

Each rule becomes a policy in the namespace of the BackendTrafficPolicy, for each target. It matches the requests that have
the descriptor entry "target" with the name of the target, such as HTTPRoute/shop. docs/how-to/migrate-from-envoy-gateway.md shows the SecurityPolicy.`,
			example: "  kubectl get backendtrafficpolicies -A -o yaml | weir import envoy-gateway -", convert: converter(objects.EnvoyGateway),
		},
		{
			name: "event-rate-limit", short: "Convert the configuration of the admission plugin EventRateLimit",
			long: `Convert the configuration of the admission plugin EventRateLimit of the Kubernetes API server to ClusterRateLimitPolicies.

The policies limit the writes of Events. They need a Limiter with kubernetesThrottle.`,
			example: "  weir import event-rate-limit eventconfig.yaml", convert: converter(objects.EventRateLimit),
		},
		{
			name: "traefik", short: "Convert the middlewares RateLimit of Traefik",
			long: `Convert the middlewares RateLimit of Traefik to policies with TokenBucket: Kubernetes objects and configurations of the file provider.

FILES can also be TOML, with the extension .toml. Each IngressRoute, Ingress or router of the file provider that has the middleware becomes a
policy that matches its rule. Without one, the policy applies to all requests of the domain, which the address of the ForwardAuth
middleware names.`,
			example: "  kubectl get middlewares.traefik.io,ingressroutes.traefik.io,ingresses -A -o yaml | weir import traefik -\n" +
				"  weir import traefik dynamic/ traefik.toml", extensions: []string{".toml"}, convert: converter(objects.Traefik),
		},
	}
}

// importSource describes a subcommand of weir import.
type importSource struct {
	name, short, long, example string
	roots                      [][]string                                              // of configurations in ConfigMaps
	extensions                 []string                                                // of other files in directories
	convert                    func(files []policyfile.File) (*importer.Result, error) // an error is one of the command line
}

// importFrom returns the subcommand of a source.
func importFrom(source importSource) *cobra.Command {
	var target importTarget
	cmd := &cobra.Command{
		Use: source.name + " FILES…", Short: source.short, Long: source.long, Example: source.example,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cli.UsageError(fmt.Errorf("missing argument: name files or directories, or - for standard input; see weir import %s --help", source.name))
			}
			return nil
		},
		RunE: cli.Interruptible(func(cmd *cobra.Command, args []string) error {
			files, err := policyfile.ReadAlso(source.extensions, cmd.InOrStdin(), args...)
			if err != nil {
				return cli.UsageError(err)
			}
			if err := target.validate(); err != nil {
				return cli.UsageError(err)
			}
			result, err := source.convert(importer.Unwrap(files, source.roots...))
			if err != nil {
				return cli.UsageError(err)
			}
			target.files = args
			return target.write(result, cmd.OutOrStdout(), cmd.ErrOrStderr())
		}),
	}
	cmd.Flags().StringVarP(&target.directory, "output", "o", "",
		"directory for the policies, which is created if it is missing. Existing files of the same names are replaced")
	cmd.Flags().BoolVar(&target.partial, "partial", false,
		"write the policies even if parts of the source are not imported, or the policies decide in another way")
	cmd.Flags().StringArrayVar(&target.accept, "accept", nil,
		"findings to accept: differences. The policies are then written and the status is 0 if there is nothing else")
	cmd.Flags().BoolVar(&target.shadow, "shadow", false, "write all policies with enforcement Shadow, to compare their decisions before they deny requests")
	return cmd
}

// importTarget is where an import writes to.
type importTarget struct {
	files     []string // the inputs, which are not replaced
	directory string   // "" is standard output
	partial   bool
	accept    []string // findings that do not fail the import
	shadow    bool     // write all policies in Shadow
}

// acceptDifferences is the value of --accept.
const acceptDifferences = "differences"

func (t importTarget) validate() error {
	for _, accepted := range t.accept {
		if accepted != acceptDifferences {
			return fmt.Errorf("--accept %q is invalid: must be %s; --partial writes the policies even if parts are not imported", accepted, acceptDifferences)
		}
	}
	return nil
}

func (t importTarget) write(result *importer.Result, stdout, stderr io.Writer) error {
	for i := range result.Policies {
		if t.shadow {
			result.Policies[i].Spec.Enforcement = v1alpha1.EnforcementShadow
		}
	}
	schema, err := apischema.New()
	if err != nil {
		return err
	}
	loader := policyfile.NewLoader(compile.DefaultIdentity(), schema)
	outputs, err := result.Finish(loader)
	if err != nil {
		return err
	}
	for _, finding := range result.Findings {
		terminal.Println(stderr, finding)
	}
	invalid, left, different := result.Count(importer.Invalid), result.Count(importer.NotImported), result.Count(importer.Difference)
	summary := strings.Join([]string{
		cli.Count(len(result.Policies), "policy", "policies"), cli.Count(invalid, "error", "errors"), fmt.Sprintf("%d not imported", left),
		cli.Count(different, "difference", "differences"), cli.Count(result.Count(importer.Note), "note", "notes"),
	}, ", ")
	if len(t.accept) > 0 {
		different = 0
	}
	switch {
	case invalid > 0:
		summary += "; nothing was written: correct the errors"
	case left > 0 && !t.partial:
		summary += "; nothing was written: change the source, or write the rest with --partial"
	case different > 0 && !t.partial:
		summary += "; nothing was written: change the source, or accept the differences with --accept differences"
	case len(outputs) == 0:
		summary += "; nothing was written: no part of the source needs a policy"
	default:
		if err := t.writeFiles(outputs, stdout); err != nil {
			return err
		}
	}
	terminal.Println(stderr, summary)
	if invalid+left+different > 0 {
		return &cli.ExitError{Code: cli.ExitFailed}
	}
	return nil
}

func (t importTarget) writeFiles(outputs []importer.Output, stdout io.Writer) error {
	if t.directory == "" {
		var contents [][]byte
		for _, o := range outputs {
			contents = append(contents, o.Content)
		}
		_, err := stdout.Write(bytes.Join(contents, []byte("---\n")))
		return err
	}
	if err := os.MkdirAll(t.directory, 0o755); err != nil {
		return fmt.Errorf("write policies: %w", err)
	}
	for _, o := range outputs {
		if err := cli.CheckOutput(filepath.Join(t.directory, o.Name), t.files...); err != nil {
			return fmt.Errorf("--output %s: %w", t.directory, err)
		}
	}
	for _, o := range outputs {
		if err := cli.WriteFile(filepath.Join(t.directory, o.Name), func(w io.Writer) error {
			_, err := w.Write(o.Content)
			return err
		}); err != nil {
			return err
		}
	}
	return nil
}

func importKuadrantCommand() *cobra.Command {
	var mapped []string
	cmd := importFrom(importSource{
		name: "kuadrant", short: "Convert RateLimitPolicies of Kuadrant",
		long: `Convert RateLimitPolicies of Kuadrant (kuadrant.io) to policies for ext_authz.

Each rate becomes a policy, which matches the requests that have the descriptor entry "target" with the name of the target, such as
HTTPRoute/shop. What Authorino adds to a request is known only to Kuadrant. If your gateway sends it in a header, a query parameter or a
claim, --map names it.`,
		roots: objects.Roots(),
		example: `  kubectl get ratelimitpolicies.kuadrant.io -A -o yaml | weir import kuadrant -
  weir import kuadrant policies.yaml --map auth.identity.userid=header:x-user-id --map auth.identity=claims`,
		convert: func(files []policyfile.File) (*importer.Result, error) {
			attributes := map[string]string{}
			for _, text := range mapped {
				attribute, expression, err := objects.ParseAttribute(text)
				if err != nil {
					return nil, fmt.Errorf("invalid --map: %w", err)
				}
				if _, isSet := attributes[attribute]; isSet {
					return nil, fmt.Errorf("invalid --map: %q: %s is already mapped; remove one of them", text, attribute)
				}
				attributes[attribute] = expression
			}
			return objects.KuadrantWith(files, attributes), nil
		},
	})
	cmd.Flags().StringArrayVar(&mapped, "map", nil,
		"where requests have the value of an attribute of Kuadrant: ATTRIBUTE=header:NAME, query:NAME, claim:NAME or claims; can be repeated")
	return cmd
}

func importKongCommand() *cobra.Command {
	var mapped []string
	cmd := importFrom(importSource{
		name: "kong", short: "Convert the plugin rate-limiting of Kong",
		long: `Convert KongPlugins and KongClusterPlugins with the plugin rate-limiting to policies, and those in a configuration of decK.

Kong cannot ask a limiter: the policies are for a proxy that can, in front of Kong or in its place. Consumers and credentials are known
only to Kong. If your proxy sends the identity in a header, a query parameter or a claim, --map names it. Without an authentication plugin,
Kong counts by address: use --map consumer=address.`,
		example: `  kubectl get kongplugins,ingresses -A -o yaml | weir import kong -
  weir import kong kong.yaml --map consumer=header:x-consumer-username`,
		roots: objects.Roots(),
		convert: func(files []policyfile.File) (*importer.Result, error) {
			identities := map[string]v1alpha1.IdentifierSource{}
			for _, text := range mapped {
				identity, source, err := objects.ParseIdentity(text)
				if err != nil {
					return nil, fmt.Errorf("invalid --map: %w", err)
				}
				if _, isSet := identities[identity]; isSet {
					return nil, fmt.Errorf("invalid --map: %q: %s is already mapped; remove one of them", text, identity)
				}
				identities[identity] = source
			}
			return objects.KongWith(files, identities), nil
		},
	})
	cmd.Flags().StringArrayVar(&mapped, "map", nil,
		"where requests have what Kong counts by: consumer, credential or consumer-group, and =header:NAME, =query:NAME, =claim:NAME or =address; can be repeated")
	return cmd
}

func importEnvoyRateLimitCommand() *cobra.Command {
	var options envoyratelimit.Options
	var algorithm string
	cmd := importFrom(importSource{
		name:  "envoy-ratelimit",
		short: "Convert the configuration of Envoy's rate limit service",
		long: `Convert the configuration of Envoy's rate limit service (github.com/envoyproxy/ratelimit) to policies.

FILES are all configuration files of the service: the *.yaml files in its runtime directory. Each limit becomes a policy for
the descriptors that the service applies it to. A domain that is the name of a namespace becomes RateLimitPolicies in this
namespace. Any other domain becomes ClusterRateLimitPolicies for the domain.`,
		example: `  weir import envoy-ratelimit config/*.yaml -o policies/
  weir import envoy-ratelimit config.yaml --algorithm SlidingWindowCounter | kubectl apply -f -`,
		roots: envoyratelimit.Roots(),
		convert: func(files []policyfile.File) (*importer.Result, error) {
			if !slices.Contains(envoyratelimit.Algorithms(), algorithm) {
				return nil, fmt.Errorf("invalid --algorithm %q: use one of %s", algorithm, strings.Join(envoyratelimit.Algorithms(), ", "))
			}
			options.Algorithm = v1alpha1.Algorithm(algorithm)
			return envoyratelimit.Import(files, options), nil
		},
	})
	cmd.Flags().StringVar(&algorithm, "algorithm", string(envoyratelimit.ServiceAlgorithm),
		"algorithm of the policies: "+strings.Join(envoyratelimit.Algorithms(), ", ")+". "+string(envoyratelimit.ServiceAlgorithm)+" decides as the service does")
	cmd.Flags().BoolVar(&options.MergeDomains, "merge-domains", false,
		"accept several files with the same domain, as the service does with MERGE_DOMAIN_CONFIG=true")
	cmd.Flags().BoolVar(&options.Cluster, "cluster", false, "write only ClusterRateLimitPolicies, for domains that are not namespaces of this cluster")
	_ = cmd.RegisterFlagCompletionFunc("algorithm", cobra.FixedCompletions(envoyratelimit.Algorithms(), cobra.ShellCompDirectiveNoFileComp)) // the flag exists
	return cmd
}
