// Package bypass lets identifiers pass a policy, or blocks them, for a bounded time, without a change of the policy.
//
// Each process has a [List]. Lists that share counters are merged through a [Store]. An entry never changes except that it ends, and ended
// entries are kept until they expire. So lists can be merged in any order, and after the Store has lost everything.
package bypass
