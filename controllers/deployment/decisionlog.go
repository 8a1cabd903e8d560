package deployment

import (
	"fmt"

	"github.com/weir-dev/weir/api/v1alpha1"
)

// decisionLogArguments returns the flags for the decision log.
func decisionLogArguments(log v1alpha1.DecisionLog) []string {
	var args []string
	if log.DenialsPerSecond > 0 {
		args = append(args, fmt.Sprintf("--decision-log-denials=%d", log.DenialsPerSecond))
	}
	if log.SampleOneIn > 0 {
		args = append(args, fmt.Sprintf("--decision-log-sample=%d", log.SampleOneIn))
	}
	if log.Identifiers != "" {
		args = append(args, "--decision-log-identifiers="+string(log.Identifiers))
	}
	return args
}
