package weir

import (
	"errors"
	"fmt"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/weir-dev/weir/api/v1alpha1/policyapi"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/policyfile"
	"github.com/weir-dev/weir/internal/policyfile/structure"
	"github.com/weir-dev/weir/limiter/rules"
)

// Policies are valid policies of files, or of this program.
type Policies struct {
	dir   string // empty if the policies are not in a directory
	watch bool
	files []policyfile.File
}

// LoadDir reads the policies in the *.yaml, *.yml and *.json files of a directory and its subdirectories. The error is a *[ProblemsError] if a policy
// is invalid.
func LoadDir(path string) (*Policies, error) {
	if path == "" {
		return nil, errors.New("the directory of the policies is empty text; for the current directory, use a dot")
	}
	files, err := policyfile.Read(nil, path)
	if err != nil {
		return nil, fmt.Errorf("read the policies: %w", err)
	}
	return validated(&Policies{dir: path, files: files})
}

// Parse reads the policies of a YAML text with one document or more. A policy without a namespace is in the namespace "default". The error is a
// *[ProblemsError] if a policy or a Limiter is invalid. A Limiter has no effect: the options of the constructors have its place.
func Parse(text []byte) (*Policies, error) {
	return validated(&Policies{files: []policyfile.File{{Name: "policies", Content: text}}})
}

// Define returns policies that are built in Go. They are validated as by an API server, with the names of fields as in YAML, for example
// spec.window. The error is a *[ProblemsError] if a policy is invalid.
func Define(policies ...policyapi.RateLimitPolicy) (*Policies, error) {
	var text []byte
	for i := range policies {
		p := &policies[i]
		document, err := yaml.Marshal(map[string]any{
			"apiVersion": "weir.dev/v1alpha1", "kind": "RateLimitPolicy", "spec": p.Spec,
			"metadata": policyapi.ObjectMeta{Namespace: p.Namespace, Name: p.Name, Labels: p.Labels},
		})
		if err != nil {
			return nil, fmt.Errorf("policies[%d] %s: %w", i, p.Name, err)
		}
		text = append(append(text, "---\n"...), document...)
	}
	return Parse(text)
}

// Watch makes a Limiter follow the changes of the directory that LoadDir has read: they are enforced within one second, those in subdirectories
// within five. An invalid edit is logged, and the policies before it stay enforced. So is an edit after which the domain of the Limiter has no policy, but
// another one has. Policies that are removed stay enforced for five seconds more, because the files can be incomplete while they are replaced. Watch has no
// effect on other policies. It returns p.
func (p *Policies) Watch() *Policies {
	if p != nil {
		p.watch = p.dir != ""
	}
	return p
}

// ProblemsError names everything that is wrong with policies, one problem in a line, with file, line, policy and field.
type ProblemsError struct{ Problems []string }

func (e *ProblemsError) Error() string {
	if len(e.Problems) == 1 {
		return e.Problems[0]
	}
	return fmt.Sprintf("%d problems of policies:\n%s", len(e.Problems), strings.Join(e.Problems, "\n"))
}

// validated returns p if its policies are valid. Whether the program has a hash key for credentials, it is not known yet.
func validated(p *Policies) (*Policies, error) {
	result, err := p.compile(compile.DefaultIdentity())
	if err != nil {
		return nil, err
	}
	if result.Policies == 0 && !p.isDir() {
		return nil, errors.New("there is no RateLimitPolicy or ClusterRateLimitPolicy in the policies")
	}
	return p, nil
}

func (p *Policies) isDir() bool { return p.dir != "" }

func (p *Policies) compile(identity compile.Identity) (policyfile.Result, error) {
	result := policyfile.NewLoader(identity, structure.Schema{}).Compile(p.files)
	if len(result.Problems) == 0 {
		return result, nil
	}
	problems := &ProblemsError{}
	for i := range result.Problems {
		problems.Problems = append(problems.Problems, result.Problems[i].String())
	}
	return policyfile.Result{}, problems
}

// domainOf returns the domain in which requests are decided if the program names domain, which can be empty.
func domainOf(set *rules.Set, domain string) (string, error) {
	known := map[string]bool{}
	everywhere := false
	for i := range set.Rules {
		r := &set.Rules[i]
		everywhere = everywhere || r.AllDomains
		for _, d := range append([]string{r.Domain}, r.Domains...) {
			if d != "" {
				known[d] = true
			}
		}
	}
	switch {
	case domain != "" && (known[domain] || everywhere || len(set.Rules) == 0):
		return domain, nil
	case domain != "":
		return "", fmt.Errorf("no policy is in domain %q, so no request would be limited; the domains of the policies are %s", domain, namesOf(known))
	case len(known) == 1:
		return namesOf(known), nil
	case len(known) == 0:
		return policyfile.DefaultNamespace, nil
	default:
		return "", fmt.Errorf("the policies are in several domains: choose one of %s with the option Domain", namesOf(known))
	}
}
