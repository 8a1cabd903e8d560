package policyfile

import (
	"errors"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Bounds of all files together. A policy has about 25 lines, and two values in a line.
const (
	maxDocuments = 100_000
	maxValues    = 2_000_000
)

// bounds is what may still be parsed. A value takes about 300 bytes, which is much more than it has in a file.
type bounds struct {
	documents, values int
	exceeded          bool // nothing more is read
}

func newBounds() *bounds { return &bounds{documents: maxDocuments, values: maxValues} }

// take takes a document. It counts what can separate values.
func (b *bounds) take(text string) error {
	b.documents--
	if b.exceeded = b.documents < 0; b.exceeded {
		return fmt.Errorf("there are more than %d documents; the rest is not read", maxDocuments)
	}
	values := 1
	for _, separator := range []string{"\n", ",", ":", "[", "{", "- "} {
		values += strings.Count(text, separator)
	}
	if b.exceeded = b.values < values; b.exceeded {
		return fmt.Errorf("the files have more than about %d values; the rest is not read", maxValues)
	}
	b.values -= values
	return nil
}

// maxExpansion is how many times larger than its text a document may be with its aliases expanded.
const maxExpansion = 10

// takeAliases rejects aliases that make a document much larger, and those of what contains them. The conversion to JSON expands all of them.
func (b *bounds) takeAliases(root *yaml.Node, size int) error {
	sizes := map[*yaml.Node]int{} // of anchors; -1 while they are measured
	most := maxExpansion*size + 1<<10
	var measure func(n *yaml.Node) (int, error)
	measure = func(n *yaml.Node) (int, error) {
		if n.Kind == yaml.AliasNode {
			n = n.Alias
		}
		if size, ok := sizes[n]; ok {
			if size < 0 {
				return 0, errors.New("an alias must not be inside of what it refers to")
			}
			return size, nil
		}
		if n.Anchor != "" {
			sizes[n] = -1
		}
		total := len(n.Value) + 1
		for _, part := range n.Content {
			part, err := measure(part)
			if err != nil {
				return 0, err
			}
			if total += part; total > most {
				return 0, fmt.Errorf("line %d: aliases make the document more than %d times larger; write it without them", n.Line, maxExpansion)
			}
		}
		if n.Anchor != "" {
			sizes[n] = total
		}
		return total, nil
	}
	_, err := measure(root)
	return err
}
