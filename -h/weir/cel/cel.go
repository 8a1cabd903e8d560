// Package cel lets policies have CEL expressions. A program with such policies imports it for its effect:
//
//	import _ "github.com/weir-dev/weir/go/weir/cel"
//
// It adds the CEL library to the program, about 5 MB. Without it, a policy with an expression is invalid.
package cel

import _ "github.com/weir-dev/weir/go/weir/cel/internal/celexpr" // registers the compiler
