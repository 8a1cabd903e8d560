// Package throttle implements a limiter's endpoint for API servers: POST /v1/throttle, a validating admission webhook.
//
// It translates an AdmissionReview to an engine.Check, and an engine.Answer to an AdmissionReview. It makes no decisions itself.
// A decision always has HTTP status 200: for an API server any other status means that the webhook failed, and after some of them
// it retries.
package throttle
