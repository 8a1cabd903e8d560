// Package format parses lines of access logs: of proxies and load balancers, the audit log of the Kubernetes API, and Weir's own decision log.
//
// A [Format] describes a log. Its parsers turn a line into a [Record], which has the request as policies match it. A parser allocates
// as little as possible: the texts of a record are parts of its line.
package format
