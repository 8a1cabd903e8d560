// Package address finds the address of the client behind proxies.
//
// Clients can write any value into X-Forwarded-For. Only the entries that trusted proxies have appended on its right are reliable.
// The invariant of this package: the result is the peer, or an address in the header with only trusted addresses to its right.
// A client that is not trusted therefore cannot choose its own address.
package address
