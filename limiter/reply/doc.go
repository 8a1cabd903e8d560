// Package reply is what clients are told of a decision, through whatever door they came: rate-limit header fields and
// problem documents.
package reply
