// Package h1 serves requests of HTTP/1.1 in their usual form, and leaves everything else to net/http.
//
// An empty server of net/http takes twice the processor time of a decision of Weir. A [Server] stands before an [http.Server]. It reads the
// requests of a connection as long as each of them has a form that it is certain to read as net/http does: see head.parse. With the first other
// byte, it hands the connection over to net/http, which reads again what was not answered. So there is one reading of a request, and net/http
// writes all errors. docs/adr/0068 has the measurements.
package h1
