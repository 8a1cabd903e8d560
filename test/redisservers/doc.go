// Package redisservers runs weir processes on real Redis servers as users have them: in each topology, with TLS, with an ACL user, and behind
// proxies. It proves what Weir finds out about each of them, that all decisions are made in Redis, and how an outage begins and ends.
// WEIR_TEST_REDIS chooses the server.
package redisservers
