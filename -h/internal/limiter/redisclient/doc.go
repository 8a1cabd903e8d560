// Package redisclient connects to Redis: one server, a primary behind Sentinels, or a Redis Cluster. It parses URLs,
// dials, loads and runs Lua scripts, classifies errors and inspects the servers. What is stored in Redis belongs to the
// packages above: counters to redisstore, rule sets and heartbeats to controlplane. Only these three packages import
// go-redis.
package redisclient
