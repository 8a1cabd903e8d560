// Package redisstore is everything Weir keeps in Redis, and the only package that knows the Redis client: counters
// ([Store]), and the rule sets and heartbeats of a limiter ([Exchange]). Each Lua script has a Go file beside it that
// owns its keys, arguments and reply.
package redisstore
