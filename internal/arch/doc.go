// Package arch holds the laws of the repository: imports point down, packages have a human size, documents name what exists. Who may import
// whom is layers_test.go.
package arch
