package format

import (
	"fmt"
	"slices"
	"strings"

	"github.com/weir-dev/weir/internal/accesslog/jsonscan"
	"github.com/weir-dev/weir/internal/accesslog/logtime"
)

// jsonLog parses lines of JSON with keys.
type jsonLog struct {
	keys   *keys
	values *values
	clock  *logtime.Clock
	mapped []string // the raw values of the assignments of a Map
	kept   []string // the headers that are read, nil for all
	names  map[string]headerName

	ranks  [fields]uint8 // of the keys that have set the fields; 0 for fields that are not set
	failed error         // about the value of a key, which matters only if no other key and no assignment sets its field
	of     field         // of failed
}

// headerName is the name of the header at a key with a prefix.
type headerName struct {
	name   string
	isKept bool
}

// newJSONLog returns a parser of lines with keys, and those that the settings read.
func newJSONLog(k *keys, s *Settings) *jsonLog {
	s.Map.addTo(k)
	return &jsonLog{keys: k, mapped: make([]string, len(s.Map)), kept: s.readHeaders(), names: map[string]headerName{}}
}

// parse sets the values of a line. The values of a Map are in p.mapped.
func (p *jsonLog) parse(line string, v *values, c *logtime.Clock, m Map) error {
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
	name := ""
	if l.field == header || l.prefix != "" {
		var isKept bool
		if name, isKept = p.headerOf(l, key); !isKept {
			return nil
		}
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

// headerOf returns the name of the header at a key, and whether it is read.
func (p *jsonLog) headerOf(l *leaf, key string) (name string, isKept bool) {
	if l.prefix == "" {
		return l.name, p.keeps(l.name)
	}
	if known, found := p.names[key]; found {
		return known.name, known.isKept
	}
	name = strings.ReplaceAll(strings.ToLower(key[len(l.prefix):]), "_", "-")
	isKept = p.keeps(name)
	if len(p.names) < maxNames {
		p.names[strings.Clone(key)] = headerName{strings.Clone(name), isKept}
	}
	return name, isKept
}

func (p *jsonLog) keeps(header string) bool { return p.kept == nil || slices.Contains(p.kept, header) }
