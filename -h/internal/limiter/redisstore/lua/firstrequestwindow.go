//go:build sixthalgorithm

package lua

import (
	"embed"
	"io/fs"
)

//go:embed testdata/sixthalgorithm/*.lua
var sixthAlgorithm embed.FS

func init() { files = withSixth{files} } //nolint:gochecknoinits // an algorithm of Weir has its Lua in this folder

// withSixth adds the Lua of the sixth algorithm.
type withSixth struct{ fs.FS }

// Open opens a part.
func (w withSixth) Open(name string) (fs.File, error) {
	if file, err := w.FS.Open(name); err == nil {
		return file, nil
	}
	return sixthAlgorithm.Open("testdata/sixthalgorithm/" + name)
}
