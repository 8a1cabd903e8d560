// Package policy is the validating webhook for policies. It rejects an invalid policy with a cause for each invalid field, and accepts a valid
// policy with warnings about parts that are expensive or have no effect.
//
// It uses the same compiler as the controllers, so that the controllers accept every policy that the webhook accepts. The webhook is
// optional: if it is unavailable, the controllers report invalid policies in status.
package policy
