// Package examples shows package go/weir with the routers and servers of other projects. It is a module of its own, so that they are not in the
// dependencies of Weir.
package examples
