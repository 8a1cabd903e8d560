package replaycommand

import (
	"fmt"
	"slices"
	"strings"

	"github.com/weir-dev/weir/internal/policyfile"
	"github.com/weir-dev/weir/internal/replay/result"
	"github.com/weir-dev/weir/internal/terminal"
	"github.com/weir-dev/weir/limiter"
)

// proposal is a policy for an axis without one. It is replayed with a limit that denies nothing, and printed with the suggested one.
type proposal struct{ namespace, name, axis, prefix string }

// proposal returns the policy that --axis asks for, nil without it.
func (f *replayFlags) proposal() (*proposal, error) {
	if f.axis == "" {
		return nil, nil //nolint:nilnil // nil is no proposal
	}
	axes := []string{"IP", "Tenant", "User", "APIKey", "Endpoint"}
	at := slices.IndexFunc(axes, func(axis string) bool { return strings.EqualFold(axis, f.axis) })
	if at < 0 {
		return nil, fmt.Errorf("--axis %q is invalid: must be one of %s", f.axis, strings.Join(axes, ", "))
	}
	if f.prefix != "" && !strings.HasPrefix(f.prefix, "/") {
		return nil, fmt.Errorf("--path-prefix %q is invalid: must begin with /", f.prefix)
	}
	p := &proposal{namespace: f.domain, name: "proposed-" + strings.ToLower(axes[at]), axis: axes[at], prefix: f.prefix}
	if p.namespace == "" {
		p.namespace = policyfile.DefaultNamespace
	}
	return p, nil
}

// text returns the policy with a limit.
func (p *proposal) text(limit int64, window, algorithm string) ([]byte, error) {
	spec := map[string]any{"axis": p.axis, "limit": limit, "window": window, "algorithm": algorithm, "enforcement": "Shadow"}
	if p.prefix != "" {
		spec["match"] = map[string]any{"http": map[string]any{"paths": []any{map[string]any{"type": "PathPrefix", "value": p.prefix}}}}
	}
	return terminal.MarshalYAML(map[string]any{
		"apiVersion": "weir.dev/v1alpha1", "kind": "RateLimitPolicy",
		"metadata": map[string]any{"namespace": p.namespace, "name": p.name}, "spec": spec,
	})
}

// file returns the policy with a limit that denies nothing.
func (p *proposal) file() policyfile.File {
	text, err := p.text(limiter.MaxUnits, "1m", string(limiter.DefaultAlgorithm))
	if err != nil {
		panic("weir replay: encode plain data: " + err.Error())
	}
	return policyfile.File{Name: "--axis", Content: text}
}

// propose adds the proposal to the result: with the suggested limit for one minute under the default algorithm.
func (p *proposal) propose(found *result.Result) error {
	if p == nil {
		return nil
	}
	name := p.namespace + "/" + p.name
	for i := range found.Policies {
		found.Policies[i].Proposed = found.Policies[i].Name == name
		for _, s := range found.Policies[i].Suggestions {
			if found.Policies[i].Name != name || s.WindowSeconds != 60 || s.Algorithm != string(limiter.DefaultAlgorithm) {
				continue
			}
			text, err := p.text(s.Limit, "1m", s.Algorithm)
			if err != nil {
				return err
			}
			found.Proposals = append(found.Proposals, result.Proposal{Name: name, YAML: string(text)})
		}
	}
	return nil
}
