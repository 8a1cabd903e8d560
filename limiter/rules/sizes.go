package rules

import (
	"strings"

	"github.com/google/cel-go/checker"
	"github.com/google/cel-go/common/types"
)

// maxExpressionCost bounds what an expression costs, in CEL's units, about as many as steps. An expression whose worst case
// on a request of the sizes below is dearer is refused, and an evaluation that becomes dearer on a larger one is ended. A
// usual expression takes two microseconds, one that goes on to the limit some ten milliseconds, see
// BenchmarkDearestExpression.
const maxExpressionCost = 20_000

// sizes are the largest requests that expressions are judged by. It is a checker.CostEstimator.
type sizes struct{}

// Sizes of texts in characters, of maps and lists in elements.
const (
	usualText = 1024 // the path, a header's value, a claim
	usualList = 64   // headers, claims, descriptors
)

// EstimateSize implements checker.CostEstimator. It always knows, for what is unknown is infinite.
func (sizes) EstimateSize(node checker.AstNode) *checker.SizeEstimate {
	if most, known := knownSize(node.Path()); known {
		return &checker.SizeEstimate{Max: most}
	}
	switch node.Type().Kind() {
	case types.BoolKind, types.DoubleKind, types.DurationKind, types.IntKind, types.TimestampKind, types.UintKind:
		return nil // they are of one size
	case types.ListKind, types.MapKind, types.OpaqueKind:
		return &checker.SizeEstimate{Max: usualList}
	default:
		return &checker.SizeEstimate{Max: usualText}
	}
}

func knownSize(path []string) (most uint64, known bool) {
	switch strings.Join(path, ".") {
	case "request.method":
		return 16, true
	case "request.domain", "request.host":
		return 253, true
	case "request.clientIP":
		return 45, true
	case "request.headers.@keys", "request.query.@keys":
		return 64, true
	case "request.query.@values", "request.descriptors", "request.descriptors.@items":
		return 16, true
	default:
		return 0, false
	}
}

// EstimateCallCost implements checker.CostEstimator: CEL and its extensions know their functions.
func (sizes) EstimateCallCost(string, string, *checker.AstNode, []checker.AstNode) *checker.CallEstimate {
	return nil
}
