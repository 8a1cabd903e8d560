// Package reply is what clients are told of a decision, through whatever door they came: rate-limit header fields, problem
// documents, and the JSON of POST /v1/check, which it also reads.
package reply
