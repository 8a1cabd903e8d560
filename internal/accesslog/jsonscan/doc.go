// Package jsonscan finds the values of some keys in lines of JSON, without building the rest.
//
// A [Tree] has the keys. Lines of a log have the same keys in the same order, so that a tree predicts the next key, and compares it in place of
// looking it up.
package jsonscan
