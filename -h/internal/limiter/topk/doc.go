// Package topk finds the identifiers with the most requests, in bounded memory.
//
// A [Sketch] is a set of small Space-Saving summaries (Metwally, Agrawal, El Abbadi, 2005): each identifier belongs to one of them by its
// hash. A summary that is full gives the counter with the smallest count to a new identifier, which inherits the count as its error. Two
// statements hold for every load, and [List] states the figures: the true count of a listed identifier is at most its count, and at least
// its count less its error; and an identifier that is not listed has at most [List].Unlisted requests.
package topk
