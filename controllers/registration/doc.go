// Package registration has API servers ask the Limiters that throttle writes to the Kubernetes API.
//
// One ValidatingWebhookConfiguration holds one webhook for each such Limiter. What API servers are to ask about is derived
// from the policies: [Render] is pure. A webhook is the last thing that is made for a Limiter, when there are policies, a
// certificate and a pod that answers, and the first to go: nobody is asked who cannot answer.
package registration
