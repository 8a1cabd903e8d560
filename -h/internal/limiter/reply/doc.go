// Package reply writes decisions for clients, the same at every endpoint: rate-limit header fields, problem documents, and the
// JSON of POST /v1/check, which it also reads.
package reply
