package engine

import "github.com/weir-dev/weir/limiter/decision"

// The types and the values of package decision.

//nolint:revive // each type has its comment there
type (
	Check        = decision.Check
	Override     = decision.Override
	Answer       = decision.Answer
	Result       = decision.Result
	Bypassed     = decision.Bypassed
	Source       = decision.Source
	RefusedError = decision.RefusedError
)

// The sources of a decision.
const (
	SourceRedis  = decision.SourceRedis
	SourceMemory = decision.SourceMemory
	SourceCache  = decision.SourceCache
	SourceLease  = decision.SourceLease
	SourceLocal  = decision.SourceLocal
	SourceNone   = decision.SourceNone
)

// ErrNoRules is the error of Check before the first Swap.
var ErrNoRules = decision.ErrNoRules

// CompareResults is [decision.CompareResults].
func CompareResults(a, b Result) int { return decision.CompareResults(a, b) }
