// Package compile compiles policies to the rules that limiters enforce.
//
// [Compile] is a pure function without I/O and without a clock. The same policies in any order compile to the same bytes. It validates
// everything again that the CRD validates, because an object can be older than a rule of the CRD, or come from a file. An invalid policy
// becomes a [Problem] that names the field. It does not affect the other policies.
package compile
