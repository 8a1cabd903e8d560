package rules

import (
	"strings"

	"github.com/google/cel-go/checker"
	"github.com/google/cel-go/common/types"
)

// maxExpressionCost bounds the cost of an expression, in CEL cost units. A unit is about one step. An expression is rejected if its worst
// case on a request of the sizes below is more expensive. An evaluation that becomes more expensive on a larger request is aborted. A
// typical expression takes two microseconds. An evaluation up to the limit takes about ten milliseconds, see
// BenchmarkMostExpensiveExpression.
const maxExpressionCost = 20_000

// celSizes has the sizes of the largest request for the cost estimate of an expression: strings in characters, maps and lists in
// elements. It is a checker.CostEstimator.
type celSizes struct {
	text, list uint64            // default sizes
	anything   uint64            // of values of unknown type
	known      map[string]uint64 // sizes of fields, by path
	loops      string            // the collections to avoid nested loops over, for messages
}

func httpSizes() celSizes {
	return celSizes{text: 1024, list: 64, anything: 1024, loops: "headers, query, claims and descriptors", known: map[string]uint64{
		"request.method": 16, "request.domain": 253, "request.host": 253, "request.clientIP": 45,
		"request.headers.@keys": 64, "request.query.@keys": 64,
		"request.query.@values": 16, "request.descriptors": 16, "request.descriptors.@items": 16,
	}}
}

// admissionSizes assumes that the collections in an object are small, such as lists of containers or labels, because their types are
// unknown.
func admissionSizes() celSizes {
	return celSizes{text: 253, list: 64, anything: 32, loops: "lists and maps of objects", known: map[string]uint64{
		"request.operation": 16, "request.namespace": 63,
	}}
}

// EstimateSize implements checker.CostEstimator. It always returns a size, because CEL treats an unknown size as infinite.
func (s celSizes) EstimateSize(node checker.AstNode) *checker.SizeEstimate {
	if most, known := s.known[strings.Join(node.Path(), ".")]; known {
		return &checker.SizeEstimate{Max: most}
	}
	switch node.Type().Kind() {
	case types.BoolKind, types.DoubleKind, types.DurationKind, types.IntKind, types.TimestampKind, types.UintKind:
		return nil // these have a fixed size
	case types.ListKind, types.MapKind, types.OpaqueKind:
		return &checker.SizeEstimate{Max: s.list}
	case types.DynKind:
		return &checker.SizeEstimate{Max: s.anything}
	default:
		return &checker.SizeEstimate{Max: s.text}
	}
}

// EstimateCallCost implements checker.CostEstimator. CEL and its extensions estimate the cost of their own functions.
func (celSizes) EstimateCallCost(string, string, *checker.AstNode, []checker.AstNode) *checker.CallEstimate {
	return nil
}
