package policyfile

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/weir-dev/weir/internal/lintrule"
	"github.com/weir-dev/weir/internal/policyfile/hint"
)

// SuppressPrefix is the prefix of the annotations that suppress the findings of a rule of weir lint for an object. The name is the id of the rule, and the
// value is the reason, for example ignore.lint.weir.dev/window-boundary: "Bursts at midnight are harmless.".
const SuppressPrefix = "ignore.lint.weir.dev/"

// suppressions returns the reasons of the annotations, by rule. A rule without a reason is not suppressed.
func (o *object) suppressions() map[string]string {
	reasons := map[string]string{}
	for name, value := range o.ignoreAnnotations() {
		if reason, _ := value.(string); strings.TrimSpace(reason) != "" {
			reasons[name] = strings.TrimSpace(reason)
		}
	}
	return reasons
}

// ignoreAnnotations returns the annotations that suppress findings, by rule.
func (o *object) ignoreAnnotations() map[string]any {
	metadata, _ := o.content["metadata"].(map[string]any)
	annotations, _ := metadata["annotations"].(map[string]any)
	found := map[string]any{}
	for key, value := range annotations {
		if rule, isOurs := strings.CutPrefix(key, SuppressPrefix); isOurs {
			found[rule] = value
		}
	}
	return found
}

// Suppressed is a finding that an annotation suppresses, and its reason.
type Suppressed struct {
	Problem
	Reason string
}

// suppress splits findings about an object into those that its annotations suppress and the others.
func (o *object) suppress(found []Problem) (kept []Problem, suppressed []Suppressed) {
	for i := range found {
		if reason, has := o.annotations[found[i].Rule]; has {
			suppressed = append(suppressed, Suppressed{found[i], reason})
		} else {
			kept = append(kept, found[i])
		}
	}
	return kept, suppressed
}

// suppressionWarnings returns a warning for each annotation that suppresses nothing. Suppressed are the rules whose findings it suppresses.
func (o *object) suppressionWarnings(suppressed map[string]bool) (problems []Problem) {
	for _, id := range slices.Sorted(maps.Keys(o.ignored)) {
		field := "metadata.annotations[" + SuppressPrefix + id + "]"
		switch rule, exists := lintrule.Find(id); {
		case !exists:
			message := fmt.Sprintf("weir lint has no rule %q", id)
			if meant := hint.Nearest(id, lintrule.IDs()); meant != "" {
				message += "; did you mean " + meant + "?"
			}
			problems = append(problems, o.problem(lintrule.InvalidSuppression, field, message))
		case rule.Severity == lintrule.Error:
			problems = append(problems, o.problem(lintrule.InvalidSuppression, field, "an error cannot be suppressed: the policy is not enforced"))
		case o.annotations[id] == "":
			problems = append(problems, o.problem(lintrule.InvalidSuppression, field, "has no reason, and suppresses nothing; write the reason as the value"))
		case !suppressed[id]:
			problems = append(problems, o.problem(lintrule.UnneededSuppression, field, "suppresses nothing; remove the annotation"))
		}
	}
	return problems
}
