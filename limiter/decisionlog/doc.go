// Package decisionlog writes decisions to a log, and sends denials to those who follow them. It never delays a decision: what exceeds a
// bound is dropped and counted.
//
// The fields of a [Record] are part of the public interface: fields are added, never renamed or removed.
package decisionlog
