package ruleset

import (
	"context"
	"fmt"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/compile/gateway"
	"github.com/weir-dev/weir/limiter/rules"
)

// addPrevious adds the active rules to gateways that cannot be read. It fails if these rules cannot be read either: without them, the policies
// with targets would lose their limits.
func (l *limiterReconciler) addPrevious(ctx context.Context, limiter *v1alpha1.Limiter, gateways *gateway.Objects) error {
	var data []byte
	var err error
	revision := limiter.Status.Revision
	if before := l.ruleSet; before != nil && before.Limiter.UID == limiter.UID {
		revision = before.Revision
		if data, err = before.Archive(); err != nil {
			return fmt.Errorf("read the active rule set %s: %w", revision, err)
		}
	} else if data, err = l.activeRuleSet(ctx, limiter); err != nil {
		return fmt.Errorf("read the active rule set %s: %w", revision, err)
	}
	if data == nil {
		return nil
	}
	set, err := rules.DecodeAs(data, revision)
	if err != nil {
		return fmt.Errorf("decode the active rule set %s: %w", revision, err)
	}
	gateways.Previous = set
	return nil
}
