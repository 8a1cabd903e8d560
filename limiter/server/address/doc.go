// Package address finds out the address of the client that a proxy asks for.
//
// Clients write whatever they like into X-Forwarded-For; only what trusted proxies added to its right end is worth
// anything. The rule of this package: the result is the peer itself, or an address that the header names with none but
// trusted addresses to its right. So no client chooses its own address, unless it is trusted itself.
package address
