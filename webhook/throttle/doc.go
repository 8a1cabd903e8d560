// Package throttle is a limiter's door for API servers: POST /v1/throttle, a validating admission webhook.
//
// It turns an AdmissionReview into an engine.Check and an engine.Answer into an AdmissionReview, and decides nothing itself.
// A decision is always HTTP 200: an API server takes any other status for a webhook that has failed, and some for one that
// it is to ask again.
package throttle
