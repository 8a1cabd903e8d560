// Package lua has the Lua scripts that decide, count and refund in Redis.
package lua
