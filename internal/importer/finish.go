package importer

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/lintrule"
	"github.com/weir-dev/weir/internal/policyfile"
)

// Output is the policies of one domain as a file.
type Output struct {
	Name    string // of the file, for example "shop.yaml"
	Content []byte
}

// Finish names the policies, validates them as the API server and the operator do, and returns them as files. A policy that is not valid is
// left out and reported: no importer needs to know every bound of the API.
func (r *Result) Finish(loader *policyfile.Loader) ([]Output, error) {
	setNames(r.Policies)
	for i := range r.Policies {
		r.Policies[i].simplify()
	}
	if err := r.validate(loader); err != nil {
		return nil, err
	}
	r.addLeftOut()
	r.sort()
	var outputs []Output
	places := map[string]int{} // in outputs, by name
	for i := range r.Policies {
		p := &r.Policies[i]
		text, err := p.yaml()
		if err != nil {
			return nil, err
		}
		name := p.Domain + ".yaml"
		if p.isCluster() {
			name = "cluster.yaml"
		}
		index, found := places[name]
		if !found {
			index = len(outputs)
			places[name] = index
			outputs = append(outputs, Output{Name: name})
		} else {
			outputs[index].Content = append(outputs[index].Content, "---\n"...)
		}
		outputs[index].Content = append(outputs[index].Content, text...)
	}
	return outputs, nil
}

// validate removes and reports the policies that are not valid, and notes policies that exceed the default budget of a Limiter.
func (r *Result) validate(loader *policyfile.Loader) error {
	var documents bytes.Buffer
	starts := make([]int, len(r.Policies)) // the line before each policy
	line := 0
	for i := range r.Policies {
		text, err := r.Policies[i].yaml()
		if err != nil {
			return err
		}
		starts[i] = line
		documents.Write(text)
		documents.WriteString("---\n")
		line += bytes.Count(text, []byte("\n")) + 1
	}
	policyAt := func(line int) int {
		i, _ := slices.BinarySearch(starts, line) // the first policy that begins after the line
		return max(i-1, 0)
	}
	result := loader.Compile([]policyfile.File{{Name: "import", Content: documents.Bytes()}})
	invalid := map[int]bool{}
	for _, problem := range result.Problems {
		i := policyAt(problem.Line)
		invalid[i] = true
		r.Add(r.Policies[i].Place, NotImported, "%s", strings.TrimPrefix(problemText(problem), ": "))
	}
	for _, warning := range result.BudgetWarnings() {
		r.Add(r.Policies[policyAt(warning.Line)].Place, Note, "%s", warning.Message)
	}
	for _, warning := range result.Findings().Warnings {
		if warning.Rule == lintrule.WindowBoundary {
			r.Policies[policyAt(warning.Line)].annotations = map[string]string{policyfile.SuppressPrefix + lintrule.WindowBoundary: windowReason}
		}
	}
	r.noteCredentials(result.Secret())
	kept := r.Policies[:0:0]
	for i := range r.Policies {
		if !invalid[i] {
			kept = append(kept, r.Policies[i])
		}
	}
	r.Policies = kept
	return nil
}

// noteCredentials sets the axis of policies that count by credentials, so that the file shows it, and notes them.
func (r *Result) noteCredentials(secret map[string]bool) {
	for i := range r.Policies {
		p := &r.Policies[i]
		if secret[p.fullName()] && p.Spec.Axis == v1alpha1.AxisCustom {
			p.Spec.Axis = v1alpha1.AxisAPIKey
			r.Add(p.Place, Note, "the policy counts by credentials: its counters, answers and logs have hashes of them, which need the hash key "+
				"of the Limiter or --hash-key")
		}
	}
}

// windowReason is why weir lint does not warn about windows that count as those of the source do.
const windowReason = "The windows are those of the imported configuration."

func problemText(p policyfile.Problem) string {
	return fmt.Sprintf("%s: %s", p.Field, p.Message)
}
