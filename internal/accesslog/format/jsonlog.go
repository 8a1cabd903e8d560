package format

import (
	"fmt"
	"strings"

	"github.com/weir-dev/weir/internal/accesslog/jsonscan"
)

// jsonLog parses lines of JSON with keys.
type jsonLog struct {
	keys   *keys
	values *values
	clock  *clock
	mapped []string // the raw values of the assignments of a Map
	// noHeaders is true if no header is kept, and no assignment reads one.
	noHeaders bool
	names     map[string]string // the names of headers by their keys

	ranks  [fields]uint8 // of the keys that have set the fields; 0 for fields that are not set
	failed error         // about the value of a key, which matters only if no other key and no assignment sets its field
	of     field         // of failed
}

// newJSONLog returns a parser of lines with keys, and those that m reads.
func newJSONLog(k *keys, m Map, noHeaders bool) *jsonLog {
	m.addTo(k)
	return &jsonLog{keys: k, mapped: make([]string, len(m)), noHeaders: noHeaders, names: map[string]string{}}
}

// parse sets the values of a line. The values of a Map are in p.mapped.
func (p *jsonLog) parse(line string, v *values, c *clock, m Map) error {
	p.values, p.clock = v, c
	p.ranks, p.failed = [fields]uint8{}, nil
	clear(p.mapped)
	if err := p.keys.tree.Scan(line, p); err != nil {
		return err
	}
	if p.failed != nil && p.ranks[p.of] == 0 && !m.sets(p.of) {
		return p.failed
	}
	return nil
}

// Visit implements jsonscan.Visitor.
func (p *jsonLog) Visit(id int, key, raw string) error {
	l := &p.keys.leaves[id]
	if l.mapped > 0 {
		p.mapped[l.mapped-1] = raw
		return nil
	}
	if p.noHeaders && l.field == header {
		return nil
	}
	text, err := jsonscan.Text(raw)
	if err != nil {
		return err
	}
	if l.rank > 0 {
		if set := p.ranks[l.field]; text == "" || text == "-" || set != 0 && set < l.rank {
			return nil
		}
	}
	name := l.name
	if l.prefix != "" {
		name = p.headerOf(l, key)
	}
	switch err = p.values.set(l.field, name, text, p.clock); {
	case err == nil:
		p.ranks[l.field] = l.rank
		return nil
	case p.failed == nil:
		if _, ok := err.(SkipError); !ok { //nolint:errorlint // set returns it unwrapped; other keys can have the request
			p.failed, p.of = fmt.Errorf("%s: %w", l.label, err), l.field
		}
	}
	return nil
}

// maxNames bounds how many names of headers a jsonLog remembers.
const maxNames = 256

// headerOf returns the name of the header at a key with a prefix.
func (p *jsonLog) headerOf(l *leaf, key string) string {
	if name, found := p.names[key]; found {
		return name
	}
	name := strings.ReplaceAll(strings.ToLower(key[len(l.prefix):]), "_", "-")
	if len(p.names) < maxNames {
		p.names[strings.Clone(key)] = strings.Clone(name)
	}
	return name
}
