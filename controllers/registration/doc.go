// Package registration registers the Limiters that throttle writes to the Kubernetes API as webhooks of API servers.
//
// One ValidatingWebhookConfiguration holds one webhook for each such Limiter. The rules of a webhook are derived from the
// policies: [Render] is a pure function. A webhook is registered last, when there are policies, a certificate and a ready pod,
// and it is removed first: API servers never call a Limiter that cannot answer.
package registration
