package arch

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// A graph maps the import path of each package to its imports. It does not contain the imports of tests.
type graph map[string]node

type node struct {
	imports  []string
	standard bool // a package of the standard library
}

// check returns a message for every import that layers or bans forbid, and for every package without a layer.
func check(g graph, layers []layer, bans []ban) []string {
	var wrong []string
	for _, path := range slices.Sorted(maps.Keys(g)) {
		name, inModule := relativePath(path)
		if !inModule {
			continue
		}
		i := slices.IndexFunc(layers, func(l layer) bool { return covers(l.pkg, name) })
		if i < 0 {
			wrong = append(wrong, name+" has no layer: give it one in layers_test.go")
			continue
		}
		for _, imported := range g[path].imports {
			if !layers[i].allows(g, imported) {
				wrong = append(wrong, fmt.Sprintf("%s imports %s: its layer does not allow that", name, imported))
			}
		}
		for _, b := range bans {
			if pattern, except, _ := strings.Cut(b.pkg, " except "); !covers(pattern, name) || except != "" && covers(except, name) {
				continue
			}
			if chain := g.shortestPath(path, b.forbidden); chain != nil {
				wrong = append(wrong, fmt.Sprintf("%s: %s", strings.Join(chain, " → "), b.reason))
			}
		}
	}
	return wrong
}

// relativePath returns the path of a package of Weir relative to the module. inModule is false for other packages.
func relativePath(path string) (name string, inModule bool) {
	return strings.CutPrefix(path, module+"/")
}

// covers reports whether name matches pattern: "a" is a itself, "a/..." is a and all packages below it, "..." is every package.
func covers(pattern, name string) bool {
	stem, subtree := strings.CutSuffix(pattern, "...")
	if !subtree {
		return pattern == name
	}
	return strings.HasPrefix(name+"/", stem)
}

// within reports whether path is root or below root.
func within(root, path string) bool { return path == root || strings.HasPrefix(path, root+"/") }

func (l layer) allows(g graph, imported string) bool {
	if g[imported].standard || imported == "C" {
		return true
	}
	if name, inModule := relativePath(imported); inModule {
		return slices.ContainsFunc(l.internal, func(pattern string) bool { return covers(pattern, name) })
	}
	return slices.ContainsFunc(l.external, func(root string) bool { return root == "..." || within(root, imported) })
}

// shortestPath returns the shortest chain of imports from a package to one within roots, or nil if there is no chain.
func (g graph) shortestPath(from string, roots []string) []string {
	importedBy := map[string]string{from: ""}
	for queue := []string{from}; len(queue) > 0; queue = queue[1:] {
		at := queue[0]
		if slices.ContainsFunc(roots, func(root string) bool { return within(root, at) }) {
			return chainTo(importedBy, at)
		}
		for _, next := range g[at].imports {
			if _, seen := importedBy[next]; !seen {
				importedBy[next] = at
				queue = append(queue, next)
			}
		}
	}
	return nil
}

// chainTo returns the chain of imports that ends at to. importedBy has the importing package of each package in the chain.
func chainTo(importedBy map[string]string, to string) []string {
	var chain []string
	for at := to; at != ""; at = importedBy[at] {
		chain = append(chain, at)
	}
	slices.Reverse(chain)
	return chain
}
