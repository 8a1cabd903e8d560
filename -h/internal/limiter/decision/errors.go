package decision

import (
	"errors"
	"fmt"
)

// ErrNoRules is the error of Check before the first Swap. Without rules a limiter neither allows nor denies.
var ErrNoRules = errors.New("no rules are loaded yet")

// RefusedError is the error of Check for a request that a rule refuses because the store is unavailable.
type RefusedError struct {
	// Policy whose onStoreFailure is Deny.
	Policy string
	// Cause is nil if the store was not called.
	Cause error
}

func (e *RefusedError) Error() string {
	if e.Cause == nil {
		return "policy " + e.Policy + " denies while the store is unavailable"
	}
	return fmt.Sprintf("policy %s denies while the store is unavailable: %v", e.Policy, e.Cause)
}

func (e *RefusedError) Unwrap() error { return e.Cause }
