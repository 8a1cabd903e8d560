// Package limiter is the vocabulary of rate limiting and its pure algorithms.
//
// A [Limit] allows so many units per window by an [Algorithm]. A request makes [Charge]s: for every policy
// that matches it, so many units on one key under one limit. A [Store] decides all charges of a request
// together and answers with one [Decision] each: either every charge is allowed and counted, or nothing is.
//
// The algorithms here are the definition; the Lua scripts of package redisstore are held to them step by step.
// Time is always an argument, in whole microseconds ([Instant]); nothing in this package reads a clock.
package limiter
