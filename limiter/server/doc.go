// Package server is a limiter's sockets: the HTTP check, forward-auth and the ops endpoints, and how they start and drain.
//
// It turns bytes into an engine.Check and an engine.Answer into bytes, and decides nothing itself.
package server
