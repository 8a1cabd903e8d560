// Package lua has the Lua scripts that decide, count and refund in Redis, their arguments and their replies.
//
// A script is a list of files, one after the other, see Assembled. numbers.lua comes first, and the file with the name of the script last, with
// KEYS, ARGV, the reply and what must never happen. Between them are the algorithms. charge.lua states what their functions return.
//
//	spend              requests with any number of charges; spend_any_slot the same for keys in any slots of a node
//	spend_compact      the same if a counter is compact; spend_compact_any_slot
//	spend_one_…        a request with one charge, with the algorithm of that charge only; spend_one_compact_…
//	refund             refunds
//
// testdata has each script as a whole. If a decision takes more instructions than before, docs/adr/0092 has the numbers and how to count.
package lua
