// Package compile turns policies into what limiters enforce.
//
// [Compile] is pure: no I/O, no clock, and the same policies in any order give the same rules to the byte. It trusts
// nothing that the policy API promises, since an object may be older than a rule of the API or come from a file:
// what cannot be enforced is a [Problem] that names the field, and never stops the other policies.
package compile
