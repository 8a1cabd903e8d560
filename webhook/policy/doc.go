// Package policy answers the API server when somebody writes a policy: a policy that cannot be enforced is refused, with
// the fields that stand against it, and one that can is stored, with warnings about what is costly or useless.
//
// The compiler that judges is the controllers' own, so that what passes here is Accepted there. Nothing depends on the
// webhook: what it would have refused while it was away, the controllers tell in the policy's status.
package policy
