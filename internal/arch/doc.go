// Package arch holds the test that keeps imports pointing down. The table of who may import whom is layers_test.go.
package arch
