package ask

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weir-dev/weir/cmd/internal/cli"
	"github.com/weir-dev/weir/cmd/internal/cli/explain"
	"github.com/weir-dev/weir/internal/policyfile"
	"github.com/weir-dev/weir/internal/policyfile/apischema"
	"github.com/weir-dev/weir/internal/terminal"
	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/admin"
	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/limiter/rules/policyname"
)

// exitDifferent is the exit status of weir rules diff if the rules differ. As with diff, all errors have cli.ExitUsage.
const exitDifferent = 1

// rulesDiffFlags are the flags of weir rules diff.
type rulesDiffFlags struct {
	limiters Limiters
	output   string
	policies string
	file     limiterFile
	hashKey  string
	revision string
}

func rulesDiffCommand(limiters Limiters) *cobra.Command {
	f := rulesDiffFlags{limiters: limiters}
	cmd := &cobra.Command{
		Use:   "diff",
		Short: "Compare the rules that replicas enforce with published rules, an earlier revision, or files",
		Long: `Compare the rules that the replicas of a limiter enforce now with other rules. By default these are the rules that the operator
has published, and with --revision an earlier rule set, which Redis keeps for an hour after it is replaced: the other rules are then the first
side (---), and the enforced ones the second (+++). With --policies they are the policies in files: these are the second side, so
that the output is what applying the files would change. weir diff compares policies in the words of their YAML.

The output names each policy and each field of its compiled form that differs, as weir rules -o json
prints them. Replicas with the same revision are compared once.

Files are compiled with the identity table of --limiter-file. Of enforced policies, only those in the namespaces of the files are compared,
and cluster policies if the files have some. Routes of policies with targetRefs are not compared, because only the operator knows them.
Without --hash-key, API keys in tiers are not compared.

Exit status, as with diff: 0 if the rules are the same, 1 if they differ, 2 if an error occurs or a replica does not answer.`,
		Example: "  kubectl weir rules diff --limiter weir-system/default\n" +
			"  kubectl weir rules diff --revision sha256:…\n" +
			"  weir rules diff --policies policies/ --admin unix:/run/weir/admin.sock",
		Args: cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			err := diffRules(cmd.Context(), &f, cli.StreamsOf(cmd))
			if _, has := errors.AsType[*cli.ExitError](err); err != nil && !has {
				return cli.UsageError(err)
			}
			return err
		},
	}
	flags := cmd.Flags()
	limiters.AddFlags(cmd)
	addListOutput(cmd, &f.output)
	flags.StringVar(&f.policies, "policies", "", "compare with the policies in this file or directory; - is standard input")
	f.file.add(flags)
	flags.StringVar(&f.hashKey, "hash-key", "", "file with the key with which the limiter hashes API keys, to compare those in tiers; only with --policies")
	flags.StringVar(&f.revision, "revision", "", "compare with the rule set of this revision, sha256:…; empty is the published one")
	return cmd
}

func diffRules(ctx context.Context, f *rulesDiffFlags, s cli.Streams) error {
	switch {
	case f.policies != "" && f.revision != "":
		return cli.UsageError(errors.New("--policies and --revision exclude each other: remove one of them"))
	case f.policies == "" && f.hashKey != "":
		return cli.UsageError(errors.New("--hash-key is used only with --policies"))
	case f.policies == "" && f.file != "":
		return cli.UsageError(errors.New("--limiter-file is used only with --policies"))
	case f.policies == "" && !f.limiters.Replicated():
		return cli.UsageError(errors.New("--policies is required: a limiter without Kubernetes has only one rule set"))
	}
	if err := validateListOutput(f.output); err != nil {
		return err
	}
	enforced, missing, err := callAll[admin.RuleSet](ctx, f.limiters, http.MethodGet, "/admin/v1/rules", nil, s.Err)
	if err != nil {
		return err
	}
	var other ruleSide
	if f.policies != "" {
		other, err = f.readFiles(s)
	} else {
		other, err = f.readPublished(ctx, s)
	}
	if err != nil {
		return err
	}
	different := []explain.Comparison{}
	for _, side := range sides(enforced) {
		if c, differs := other.compare(&side); differs {
			different = append(different, c)
		}
	}
	if err := explain.PrintComparisons(s.Out, f.output, different); err != nil {
		return err
	}
	switch {
	case len(missing) > 0 && len(different) > 0:
		return cli.UsageError(fmt.Errorf("the rules differ, and these replicas do not answer: %s", strings.Join(missing, ", ")))
	case len(missing) > 0:
		return cli.UsageError(fmt.Errorf("the other replicas enforce the same rules, but these do not answer: %s", strings.Join(missing, ", ")))
	case len(different) > 0:
		return &cli.ExitError{Code: exitDifferent}
	default:
		return nil
	}
}

// ruleSide is a rule set to compare.
type ruleSide struct {
	explain.Side

	rules []rules.Rule
	files *fileRules // nil except for files
}

// fileRules are what is known of rules from files.
type fileRules struct {
	scopes  map[string]bool // those of the policies: namespaces and policyname.Cluster
	secrets bool            // whether hashes of secret identifiers are those of the limiter
}

// sides returns one side for each revision.
func sides(answers []replicaAnswer[admin.RuleSet]) (list []ruleSide) {
	for _, a := range answers {
		name := cmp.Or(a.replica, "the limiter")
		i := slices.IndexFunc(list, func(s ruleSide) bool { return s.Revision == a.value.Revision })
		if i >= 0 {
			list[i].Name += ", " + name
			continue
		}
		list = append(list, newRuleSide("enforced by "+name, &a.value))
	}
	return list
}

func newRuleSide(name string, set *admin.RuleSet) ruleSide {
	side := ruleSide{Side: explain.Side{Name: name, Revision: set.Revision}}
	for i := range set.Rules {
		side.rules = append(side.rules, set.Rules[i].Rule)
	}
	slices.SortFunc(side.rules, byPolicy)
	return side
}

// readPublished returns the rule set of --revision, or the one that the operator has published.
func (f *rulesDiffFlags) readPublished(ctx context.Context, s cli.Streams) (ruleSide, error) {
	name, query := "published", ""
	if f.revision != "" {
		name, query = "earlier", "?"+url.Values{"revision": {f.revision}}.Encode()
	}
	sets, err := call[admin.RuleSet](ctx, f.limiters, http.MethodGet, "/admin/v1/rules/published"+query, nil, s.Err)
	if err != nil {
		return ruleSide{}, err
	}
	return newRuleSide(name, &sets[0].value), nil
}

// readFiles returns the rules of --policies.
func (f *rulesDiffFlags) readFiles(s cli.Streams) (ruleSide, error) {
	key, err := cli.ReadHashKey(f.hashKey)
	if err != nil {
		return ruleSide{}, err
	}
	side := ruleSide{Side: explain.Side{Name: f.policies}, files: &fileRules{scopes: map[string]bool{}, secrets: key != nil}}
	if key == nil {
		key = limiter.RandomHashKey()
	}
	identity, err := f.file.identity()
	if err != nil {
		return ruleSide{}, err
	}
	schema, err := apischema.New()
	if err != nil {
		return ruleSide{}, err
	}
	loader := policyfile.NewLoader(identity.WithHashKey(key), schema)
	loaded, err := loader.Load(s.In, f.policies)
	if err != nil {
		return ruleSide{}, err
	}
	for _, problem := range loaded.Problems {
		terminal.Println(s.Err, problem)
	}
	if len(loaded.Problems) > 0 {
		return ruleSide{}, fmt.Errorf("%s in %s", cli.Count(len(loaded.Problems), "problem", "problems"), f.policies)
	}
	side.rules = loaded.Rules.Rules
	for i := range side.rules {
		side.files.scopes[scopeOf(&side.rules[i])] = true
	}
	return side, nil
}

func scopeOf(rule *rules.Rule) string {
	scope, _ := policyname.Split(rule.Policy)
	return scope
}

// compare compares the rules with those that replicas enforce. It reports whether they differ.
func (a *ruleSide) compare(enforced *ruleSide) (explain.Comparison, bool) {
	if a.files == nil {
		c := explain.Comparison{From: a.Side, To: enforced.Side}
		if a.Revision == enforced.Revision {
			return c, false
		}
		c.Differences = explain.DiffRules(a.rules, enforced.rules, func(_, _ *rules.Rule, _ string) bool { return false })
		return c, true
	}
	compared := slices.DeleteFunc(slices.Clone(enforced.rules), func(r rules.Rule) bool { return !a.files.scopes[scopeOf(&r)] })
	c := explain.Comparison{From: enforced.Side, To: a.Side} // what applying the files would change
	c.Differences = explain.DiffRules(compared, a.rules, func(enforced, file *rules.Rule, field string) bool { return a.files.ignore(file, enforced, field) })
	return c, len(c.Differences) > 0
}

// ignore reports whether files do not determine a field of a rule: what the operator knows of routes, and hashes with another key.
func (f *fileRules) ignore(file, enforced *rules.Rule, field string) bool {
	if file.Match.Routes != nil && enforced.Match.Routes != nil {
		for _, attached := range []string{"match.routes", "domain", "domains", "allDomains"} {
			if field == attached || strings.HasPrefix(field, attached+"[") {
				return true
			}
		}
	}
	return !f.secrets && file.HasSecrets() && enforced.HasSecrets() && strings.HasPrefix(field, "tiers[") &&
		strings.Contains(field, "].when.identifiers")
}

func byPolicy(a, b rules.Rule) int { return strings.Compare(a.Policy, b.Policy) }
