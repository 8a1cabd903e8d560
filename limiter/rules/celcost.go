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

// sizes are the largest requests that expressions are judged by, texts in characters, maps and lists in elements. It is a
// checker.CostEstimator.
type celSizes struct {
	text, list uint64            // of most
	anything   uint64            // of what may be either
	known      map[string]uint64 // of these, by their path
	loops      string            // over what nobody should nest them
}

func httpSizes() celSizes {
	return celSizes{text: 1024, list: 64, anything: 1024, loops: "headers, query, claims and descriptors", known: map[string]uint64{
		"request.method": 16, "request.domain": 253, "request.host": 253, "request.clientIP": 45,
		"request.headers.@keys": 64, "request.query.@keys": 64,
		"request.query.@values": 16, "request.descriptors": 16, "request.descriptors.@items": 16,
	}}
}

// admissionSizes take what is in an object, of which it is not known what it is, for small: lists of containers, labels.
func admissionSizes() celSizes {
	return celSizes{text: 253, list: 64, anything: 32, loops: "lists and maps of objects", known: map[string]uint64{
		"request.operation": 16, "request.namespace": 63,
	}}
}

// EstimateSize implements checker.CostEstimator. It always knows, for what is unknown is infinite.
func (s celSizes) EstimateSize(node checker.AstNode) *checker.SizeEstimate {
	if most, known := s.known[strings.Join(node.Path(), ".")]; known {
		return &checker.SizeEstimate{Max: most}
	}
	switch node.Type().Kind() {
	case types.BoolKind, types.DoubleKind, types.DurationKind, types.IntKind, types.TimestampKind, types.UintKind:
		return nil // they are of one size
	case types.ListKind, types.MapKind, types.OpaqueKind:
		return &checker.SizeEstimate{Max: s.list}
	case types.DynKind:
		return &checker.SizeEstimate{Max: s.anything}
	default:
		return &checker.SizeEstimate{Max: s.text}
	}
}

// EstimateCallCost implements checker.CostEstimator: CEL and its extensions know their functions.
func (celSizes) EstimateCallCost(string, string, *checker.AstNode, []checker.AstNode) *checker.CallEstimate {
	return nil
}
