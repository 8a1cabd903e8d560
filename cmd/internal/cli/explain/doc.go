// Package explain reads the requests that weir explain explains, and prints explanations.
package explain
