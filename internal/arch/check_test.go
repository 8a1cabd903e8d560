package arch

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// A graph has the imports of every package, tests left out, by import path.
type graph map[string]node

type node struct {
	imports  []string
	standard bool // of the standard library
}

// check returns a sentence for every import that layers or bans forbid, and for every package without a layer.
func check(g graph, layers []layer, bans []ban) []string {
	var wrong []string
	for _, path := range slices.Sorted(maps.Keys(g)) {
		name, ours := below(path)
		if !ours {
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
			if !covers(b.pkg, name) {
				continue
			}
			if way := g.reach(path, b.never); way != nil {
				wrong = append(wrong, fmt.Sprintf("%s: %s", strings.Join(way, " → "), b.why))
			}
		}
	}
	return wrong
}

// below returns the path of a package of Weir below the module.
func below(path string) (name string, ours bool) { return strings.CutPrefix(path, module+"/") }

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
	if name, ours := below(imported); ours {
		return slices.ContainsFunc(l.ours, func(pattern string) bool { return covers(pattern, name) })
	}
	return slices.ContainsFunc(l.world, func(root string) bool { return root == "..." || within(root, imported) })
}

// reach returns the shortest way along imports from a package to one within roots, or nil.
func (g graph) reach(from string, roots []string) []string {
	cameFrom := map[string]string{from: ""}
	for queue := []string{from}; len(queue) > 0; queue = queue[1:] {
		at := queue[0]
		if slices.ContainsFunc(roots, func(root string) bool { return within(root, at) }) {
			return walked(cameFrom, at)
		}
		for _, next := range g[at].imports {
			if _, seen := cameFrom[next]; !seen {
				cameFrom[next] = at
				queue = append(queue, next)
			}
		}
	}
	return nil
}

func walked(cameFrom map[string]string, to string) []string {
	var way []string
	for at := to; at != ""; at = cameFrom[at] {
		way = append(way, at)
	}
	slices.Reverse(way)
	return way
}
