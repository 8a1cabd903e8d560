package jsonscan

import "strings"

// Tree is a set of keys, also of nested objects. Each has an id, which the caller chooses. A tree learns the order of the keys of lines, so it must not
// be used concurrently.
type Tree struct{ root node }

// node is what a tree knows about an object.
type node struct {
	children map[string]*node
	ids      []int // of the value itself
	prefixes []prefix

	// members are the keys that objects had, with their quotes. Others than those of the tree are kept too, because they must be compared on each line.
	members map[string]*member
	first   member // whose next is the first key of an object
}

// prefix is that of keys, with their id.
type prefix struct {
	text string
	id   int
}

// member is a key of an object.
type member struct {
	quoted, key string
	ids         []int
	child       *node   // nil if nothing in the value is in the tree
	next        *member // the key that followed it last
	isKept      bool
}

const (
	// maxMembers is the number of keys of an object that are kept, and maxKey the length of the longest, in bytes. A client can choose the keys of some
	// logs.
	maxMembers = 256
	maxKey     = 128
)

// Add adds the key at a path. If a key is added again, its value is visited with each of the ids.
func (t *Tree) Add(id int, path ...string) {
	n := &t.root
	for _, key := range path {
		if n.children == nil {
			n.children = map[string]*node{}
		}
		child := n.children[key]
		if child == nil {
			child = &node{}
			n.children[key] = child
		}
		n = child
	}
	n.ids = append(n.ids, id)
}

// AddPrefix adds the keys of the outer object that begin with a text and are not in the tree.
func (t *Tree) AddPrefix(id int, text string) {
	t.root.prefixes = append(t.root.prefixes, prefix{text, id})
}

// memberOf returns the member for a key, which it keeps. quoted and key can be parts of a line.
func (n *node) memberOf(quoted, key string) *member {
	isKept := len(n.members) < maxMembers && len(quoted) <= maxKey
	if isKept {
		quoted, key = strings.Clone(quoted), strings.Clone(key)
	}
	m := &member{quoted: quoted, key: key, isKept: isKept}
	if child := n.children[key]; child != nil {
		m.ids = child.ids
		if len(child.children) > 0 {
			m.child = child
		}
	} else {
		for i := range n.prefixes {
			if strings.HasPrefix(key, n.prefixes[i].text) {
				m.ids = []int{n.prefixes[i].id}
				break
			}
		}
	}
	if isKept {
		if n.members == nil {
			n.members = map[string]*member{}
		}
		n.members[quoted] = m
	}
	return m
}
