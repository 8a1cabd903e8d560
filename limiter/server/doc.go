// Package server has the HTTP servers of a limiter: the HTTP check, forward-auth and the ops endpoints, with start and drain.
//
// It turns requests into an engine.Check and an engine.Answer into responses. The engine makes every decision.
package server
