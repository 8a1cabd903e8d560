// Package accesslog reads logs of requests, in the order of time and as policies match them: access logs of proxies and load balancers, the audit log
// of the Kubernetes API, and Weir's own decision log.
//
// [Open] detects the format of each file. A [Reader] parses on all processors, sorts lines within a window of time, and merges the files by time. Its
// memory is bounded whatever the size of the files.
package accesslog
