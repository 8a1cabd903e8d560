// Package limiter is the vocabulary of rate limiting and its pure algorithms.
//
// A [Limit] allows a number of units per window, counted by an [Algorithm]. Every policy that matches a request makes one [Charge]: a
// number of units on one key under one limit. A [Store] decides all charges of a request together and returns one [Decision] for each:
// either every enforced charge is allowed and counted, or nothing is counted.
//
// The algorithms here are the definition. Tests compare the Lua scripts of package redisstore with them step by step.
// Time is always an argument, in whole microseconds ([Instant]). This package never reads a clock.
package limiter
