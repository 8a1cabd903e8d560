package celexpr

import (
	"math"

	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/overloads"
)

// function is what the cost of a function of CEL depends on. An expression can call only the functions of [functionTable].
type function struct {
	// cost of a call in units, in addition to the node of the call. It must not be less than the work, for any arguments. If nil, the time
	// of the function does not depend on its arguments.
	cost func(args []extent) uint64
	// result returns the bounds of the result of a call. If nil, the result is a number, a bool or another value of a fixed size.
	result func(args []extent) extent
	// whole states which arguments are measured with everything in them. Others count as one unit, besides texts.
	whole measured
	// most is the maximum number of arguments. 0 is no maximum.
	most int
	// short is true for functions that parse a number, a time or an address. They fail for texts over maxParsed.
	short bool
}

// measured states which lists and maps are measured with everything in them, because a function loops over them.
type measured int

const (
	noLists measured = iota
	// lists is for membership in a list. A key is looked up in a map.
	lists
	allParts // lists and maps
	sameKind // lists and maps, if both arguments have the same number of elements
)

// The units of the cost of an expression. A unit is about ten nanoseconds and at most ten bytes of new memory.
const (
	// nodeCost is the cost of a node of the syntax tree: reading a field, a call, a value of a list.
	nodeCost = 5
	// bytesPerUnit is the number of bytes that a simple loop over a text reads in one unit.
	bytesPerUnit = 8
	// elementCost is the cost of a loop over one element of a list or a map, without its value.
	elementCost = 10
	// runeFactor is the cost of functions that convert a text to code points and back, relative to a simple loop. Bytes outside of UTF-8 are
	// the worst: each becomes a code point of three bytes.
	runeFactor  = 16
	invalidSize = 3
	// pieceCost is the cost of finding one occurrence of a text, and of a new text for the part before it.
	pieceCost = 3
	// maxParsed is the maximum size of a text that is parsed, in bytes, and quoteFactor is the cost of the errors, which quote the text
	// several times.
	maxParsed   = 256
	quoteFactor = 50
)

// extent bounds the size of a value. Of an actual value, the sizes are exact and there are no elements.
type extent struct {
	bytes  uint64 // of a text
	count  uint64 // of the elements of a list or a map
	weight uint64 // cost of a loop over the value and everything in it
	// item and key are the bounds of the elements of a list or a map. nil is a value of a fixed size.
	item, key *extent
}

// scalar is the extent of numbers and other values of a fixed size.
var scalar = extent{weight: 1} //nolint:gochecknoglobals // a constant

func text(size uint64) extent { return extent{bytes: size, weight: 1 + size/bytesPerUnit} }

// times is the product, or the largest number.
func times(a, b uint64) uint64 {
	if b != 0 && a > math.MaxUint64/b {
		return math.MaxUint64
	}
	return a * b
}

// plus is the sum, or the largest number.
func plus(a, b uint64) uint64 {
	if a > math.MaxUint64-b {
		return math.MaxUint64
	}
	return a + b
}

func totalWeight(args []extent) (sum uint64) {
	for i := range args {
		sum = plus(sum, args[i].weight)
	}
	return sum
}

func totalBytes(args []extent) (sum uint64) {
	for i := range args {
		sum = plus(sum, args[i].bytes)
	}
	return sum
}

// linear is the cost of functions that read each text once.
func linear(factor uint64) func([]extent) uint64 {
	return func(args []extent) uint64 {
		return times(factor, plus(uint64(len(args)), totalBytes(args)/bytesPerUnit))
	}
}

// linearInParts is the cost of functions that read each argument once, with everything in it.
func linearInParts(factor uint64) func([]extent) uint64 {
	return func(args []extent) uint64 { return times(factor, totalWeight(args)) }
}

func parsing(args []extent) uint64 {
	return times(quoteFactor, 1+min(maxParsed, totalBytes(args))/bytesPerUnit)
}

// comparison ends at the end of the shorter text.
func comparison(args []extent) uint64 {
	return 2 * (1 + min(args[0].bytes, args[1].bytes)/bytesPerUnit)
}

// equality ends at the end of the smaller text. Of lists and maps, the first is measured, and the second up to the same weight.
func equality(args []extent) uint64 {
	smaller := min(args[0].weight, args[1].weight)
	if args[0].count > 0 && args[1].count > 0 {
		return plus(args[0].weight, smaller)
	}
	return times(2, smaller)
}

// membership compares with each element of a list, or looks up a key of a map.
func membership(args []extent) uint64 {
	if collection := args[1]; collection.key == nil || collection.key == collection.item {
		return plus(collection.weight, args[0].weight/4)
	}
	return args[0].weight
}

func sameSize(args []extent) extent { return args[0] }
func textOfSize(size func([]extent) uint64) func([]extent) extent {
	return func(args []extent) extent { return text(size(args)) }
}

// pieces is the maximum number of times that a text contains a separator, plus one. Without a separator it is that of characters.
func pieces(args []extent) uint64 { return args[0].bytes/max(1, args[1].bytes) + 1 }

// replaced is the maximum size of a text in which each occurrence of one text is replaced by another.
func replaced(args []extent) uint64 { return plus(args[0].bytes, times(pieces(args), args[2].bytes)) }

// texts is the weight of a list whose elements are texts: the function fails for others.
func texts(list extent) uint64 {
	if list.item == nil {
		return list.weight
	}
	return min(list.weight, 1+times(list.count, elementCost+1+list.item.bytes/bytesPerUnit))
}

// joined is the maximum size of a list of texts with separators.
func joined(args []extent) uint64 {
	size := times(texts(args[0]), bytesPerUnit)
	if len(args) > 1 {
		size = plus(size, times(args[0].count, args[1].bytes))
	}
	return size
}

// pairwise is the cost of comparing each element of a list with each of another.
func pairwise(args []extent) uint64 {
	return times(4, plus(times(args[0].count+1, args[1].weight), times(args[1].count+1, args[0].weight)))
}

// search is the cost of looking for a text at each position of another one.
func searchText(args []extent) uint64 {
	return plus(linear(runeFactor)(args), times(args[0].bytes+1, args[1].bytes+1)/4)
}

func itemOf(args []extent) extent {
	if args[0].item == nil {
		return scalar
	}
	return *args[0].item
}

func either(args []extent) (e extent) {
	for i := range args {
		e = e.union(args[i])
	}
	return e
}

// union returns the bounds of a value that is one of two.
func (e extent) union(other extent) extent {
	return extent{
		bytes: max(e.bytes, other.bytes), count: max(e.count, other.count), weight: max(e.weight, other.weight),
		item: unionOf(e.item, other.item), key: unionOf(e.key, other.key),
	}
}

func unionOf(a, b *extent) *extent {
	switch {
	case a == nil || a == b:
		return b
	case b == nil:
		return a
	}
	if a.item == a || b.item == b { // of any type: it has no other bounds inside
		u := &extent{bytes: max(a.bytes, b.bytes), count: max(a.count, b.count), weight: max(a.weight, b.weight)}
		u.item, u.key = u, u
		return u
	}
	u := a.union(*b)
	return &u
}

// The functions that Compile adds to an expression. A user cannot write their names.
const (
	useKey   = "@key"   // of an index that is not a literal: its cost is that of its text
	useRange = "@range" // of a loop: its cost is that of the whole loop
)

// functionTable has the functions that an expression can call. Functions that no policy needs, and whose results grow faster than their
// arguments, are left out: format, strings.quote, json.encode, the concatenation of lists, and parts of a timestamp in a time zone,
// which reads the zone from a file.
var functionTable = newFunctionTable() //nolint:gochecknoglobals // a constant

func newFunctionTable() map[string]*function {
	table := map[string]*function{}
	add := func(f function, names ...string) {
		for _, name := range names {
			table[name] = &f
		}
	}
	add(function{},
		operators.LogicalAnd, operators.LogicalOr, operators.LogicalNot, operators.NotStrictlyFalse,
		operators.Negate, operators.Subtract, operators.Multiply, operators.Divide, operators.Modulo,
		"type", "hasValue", "optional.none",
		"math.abs", "math.ceil", "math.floor", "math.isFinite", "math.isInf", "math.isNaN", "math.round", "math.sign", "math.sqrt", "math.trunc",
		"math.bitAnd", "math.bitNot", "math.bitOr", "math.bitShiftLeft", "math.bitShiftRight", "math.bitXor",
		"family", "isGlobalUnicast", "isLinkLocalMulticast", "isLinkLocalUnicast", "isLoopback", "isMask", "isUnspecified", "masked", "prefixLength")
	add(function{most: 1},
		"getDate", "getDayOfMonth", "getDayOfWeek", "getDayOfYear", "getFullYear", "getHours", "getMilliseconds", "getMinutes", "getMonth", "getSeconds")
	add(function{result: sameSize}, "dyn", "optional.of", "optional.ofNonZeroValue", "value", useRange)
	add(function{result: itemOf}, operators.Index, operators.OptIndex, operators.OptSelect, "first", "last")
	add(function{result: func(args []extent) extent { return either(args[1:]) }}, operators.Conditional)
	add(function{result: either}, "or", "orValue")
	add(function{cost: linear(4), result: sameSize}, useKey) // an error quotes the key
	add(function{cost: equality, whole: sameKind}, operators.Equals, operators.NotEquals)
	add(function{cost: membership, whole: lists}, operators.In, operators.OldIn, "_in_")
	add(function{cost: comparison}, operators.Less, operators.LessEquals, operators.Greater, operators.GreaterEquals)
	add(function{cost: linear(2)},
		"size", "contains", "endsWith", "startsWith")
	add(function{cost: parsing, short: true},
		"bool", "double", "duration", "int", "timestamp", "uint",
		"cidr", "ip", "ip.isCanonical", "isCIDR", "isIP", "containsCIDR", "containsIP")
	add(function{cost: linearInParts(4), whole: allParts}, "math.@max", "math.@min")
	add(function{cost: linearInParts(4), result: sameSize, whole: allParts}, "optional.unwrap", "unwrapOpt")
	add(function{cost: linear(4), result: sameSize}, "bytes", "trim", "base64.decode")
	add(function{cost: linear(4), result: func(args []extent) extent { return text(max(64, args[0].bytes)) }}, "string")
	add(function{cost: linear(4), result: textOfSize(func(args []extent) uint64 { return args[0].bytes/3*4 + 4 })}, "base64.encode")
	add(function{
		cost:   linear(runeFactor),
		result: textOfSize(func(args []extent) uint64 { return times(invalidSize, args[0].bytes) }),
	}, "lowerAscii", "upperAscii", "reverse", "substring")
	add(function{cost: linear(runeFactor), result: textOfSize(func([]extent) uint64 { return 4 })}, "charAt")
	add(function{cost: searchText}, "indexOf", "lastIndexOf")
	add(function{
		cost: func(args []extent) uint64 {
			return plus(times(pieceCost, pieces(args)), times(2, plus(totalBytes(args), replaced(args))/bytesPerUnit))
		},
		result: textOfSize(replaced),
	}, "replace")
	add(function{
		cost: func(args []extent) uint64 {
			return plus(1+totalBytes(args)/bytesPerUnit, times(pieceCost, pieces(args)))
		},
		result: func(args []extent) extent {
			return extent{count: pieces(args), weight: plus(args[0].weight, times(elementCost, pieces(args))), item: &args[0]}
		},
	}, "split")
	add(function{
		cost:   func(args []extent) uint64 { return times(2, plus(texts(args[0]), joined(args)/bytesPerUnit)) },
		result: textOfSize(joined),
		whole:  allParts,
	}, "join")
	add(function{cost: pairwise, whole: allParts}, "sets.contains", "sets.equivalent", "sets.intersects")
	add(function{cost: linear(2), result: textOfSize(totalBytes)}, operators.Add)
	add(function{}, overloads.Matches) // counts its steps, see matching
	return table
}
