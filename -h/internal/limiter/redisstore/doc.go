// Package redisstore keeps counters in Redis and decides in Lua. Each Lua script is embedded in the Go file that passes its keys
// and arguments and decodes its reply.
package redisstore
