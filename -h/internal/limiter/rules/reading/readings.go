// Package reading returns the ways in which servers read a path and a query.
package reading

import (
	"bytes"
	"slices"
	"strings"
)

// Servers read one path in different ways: they decode escapes before or after they split the path, or not at all; they resolve dot segments, or
// take them for names. The reading of the service behind a gateway is unknown, so a condition on the path is met if any reading meets it.
const (
	// maxReadings bounds the notations in which one path is read, and MaxBytes the work: their number times the length. A client that
	// exceeds them gains nothing: its request meets every condition on the path, see Set.Unknown.
	maxReadings = 32
	MaxBytes    = 8 << 10
)

// PathsOf returns the normal path of a target, such as /v1/search?q=x, and the path as the client has sent it if servers can read it in several
// ways, else "".
func PathsOf(target string) (path, raw string) {
	if isPlain(target) {
		return trimTarget(target), ""
	}
	raw, _, _ = strings.Cut(target, "?")
	if s := surveyOf(raw); s.hash || s.authority || s.twice || s.isAmbiguous() {
		return NormalPath(target), raw
	}
	return NormalPath(target), ""
}

// isPlain reports whether a target has only one reading, in which its path is what the client has sent.
func isPlain(target string) bool {
	if target == "" || target[0] != '/' {
		return false
	}
	previous := byte(0)
	for i := range len(target) {
		switch c := target[i]; {
		case c == '?':
			return previous != '.'
		case c == '%' || c == '\\' || c == ';' || c == '#' || c <= ' ' || c == 0x7f:
			return false
		case (c == '.' || c == '/') && (previous == '.' || previous == '/'):
			return false
		default:
			previous = c
		}
	}
	return previous != '.'
}

// trimTarget returns the path of a plain target.
func trimTarget(target string) string {
	path, _, _ := strings.Cut(target, "?")
	if len(path) > 1 {
		return strings.TrimSuffix(path, "/")
	}
	return path
}

// NormalPath returns the usual reading of a path: decoded, without query, dot segments and double slashes, and with a leading slash. Invalid
// escapes stay unchanged. [Of] returns the other readings.
func NormalPath(p string) string {
	if i := strings.IndexAny(p, "?#"); i >= 0 {
		p = p[:i]
	}
	var buffer [256]byte
	var starts [32]int
	text := usual().read(buffer[:0], starts[:0], p)
	if len(text) == len(p) && string(text) == p {
		return p
	}
	return string(text)
}

// notation is a way to read paths.
type notation struct {
	slash     bool // whether an escaped slash separates segments
	backslash bool // whether a backslash separates segments, and with slash an escaped one too
	dots      dots
	empty     bool // whether a dot segment removes an empty segment before it, and not the last name
	params    params
	trim      bool // whether spaces, control characters and dots at the end of a segment are removed, and a NUL ends the path
}

// dots are the dot segments that are resolved.
type dots uint8

const (
	allDots   dots = iota
	plainDots      // without those with an escape
	noDots
)

// params is what ends the name of a segment.
type params uint8

const (
	noParams      params = iota
	plainParams          // a semicolon
	escapedParams        // a semicolon, escaped or not
)

// usual is the notation of most proxies and servers.
func usual() notation { return notation{slash: true} }

// read appends the reading of raw to dst, in the form of NormalPath. It uses starts, which is empty, for the names of the path.
func (n notation) read(dst []byte, starts []int, raw string) []byte {
	i := 0
	if strings.HasPrefix(raw, "/") {
		i = 1
	}
	for more := true; more; {
		start, plain, cut := len(dst), true, false
		dst = append(dst, '/')
		for more = false; i < len(raw); {
			c, width := raw[i], 1
			if c == '%' {
				c, width = unescape(raw, i)
			}
			i += width
			if (c == '/' || c == '\\') && n.separates(c, width) {
				more = true
				break
			}
			cut = cut || c == ';' && (n.params == escapedParams || n.params == plainParams && width == 1)
			if !cut {
				dst = append(dst, c)
				plain = plain && width == 1
			}
		}
		if n.trim {
			var ended bool
			if dst, ended = trimSegment(dst, start+1); ended {
				more = false
			}
		}
		dst, starts = n.end(dst, starts, start, plain)
	}
	if !n.slash { // names can have slashes
		dst = mergeSlashes(dst)
	}
	if len(dst) == 0 {
		return append(dst, '/')
	}
	return dst
}

// end ends the segment that dst has from the slash at from.
func (n notation) end(dst []byte, starts []int, start int, plain bool) ([]byte, []int) {
	resolved := n.dots == allDots || n.dots == plainDots && plain
	switch name := dst[start+1:]; {
	case len(name) == 0 && n.empty:
		return dst[:start], append(starts, start)
	case len(name) == 0, resolved && string(name) == ".":
		return dst[:start], starts
	case resolved && string(name) == "..":
		if last := len(starts) - 1; last >= 0 {
			return dst[:starts[last]], starts[:last]
		}
		return dst[:start], starts
	default:
		return dst, append(starts, start)
	}
}

// unescape returns the byte at i, decoded if it is escaped, and the number of bytes that it has in raw.
func unescape(raw string, i int) (c byte, width int) {
	if raw[i] == '%' && i+2 < len(raw) {
		if high, low := hexDigit(raw[i+1]), hexDigit(raw[i+2]); high >= 0 && low >= 0 {
			return byte(high<<4 | low), 3
		}
	}
	return raw[i], 1
}

func (n notation) separates(c byte, width int) bool {
	return c == '/' && (width == 1 || n.slash) || c == '\\' && n.backslash && (width == 1 || n.slash)
}

// trimSegment trims the segment from from. It reports whether the segment ends the path.
func trimSegment(dst []byte, start int) (trimmed []byte, ended bool) {
	if nul := bytes.IndexByte(dst[start:], 0); nul >= 0 {
		dst, ended = dst[:start+nul], true
	}
	end := len(dst)
	for end > start && isTrimmed(dst[end-1]) {
		end--
	}
	if end > start || ended {
		return dst[:end], ended
	}
	return dst, false // only dots or spaces
}

func isTrimmed(c byte) bool { return c <= ' ' || c == '.' || c == 0x7f }

// mergeSlashes merges double slashes, and removes one at the end.
func mergeSlashes(path []byte) []byte {
	kept := path[:0]
	for i, c := range path {
		if c == '/' && (i+1 == len(path) || path[i+1] == '/') {
			continue
		}
		kept = append(kept, c)
	}
	return kept
}

// survey is what a path has that servers read in different ways.
type survey struct {
	hash, authority, twice          bool
	slash, backslash                bool // escaped slashes; any backslash
	semicolon, escapedSemicolon     bool
	dots, escapedDots, empty, trims bool
}

func (s *survey) isAmbiguous() bool { return s.backslash || s.semicolon || s.dots || s.trims }

func surveyOf(raw string) (s survey) {
	s.hash = strings.IndexByte(raw, '#') >= 0
	_, s.authority = cutAuthority(raw)
	length, onlyDots, escaped, previous := 0, true, false, byte('/') // of the segment, without parameters
	ended := false                                                   // by a semicolon
	end := func() {
		s.dots = s.dots || onlyDots && (length == 1 || length == 2)
		s.escapedDots = s.escapedDots || s.dots && escaped
		s.trims = s.trims || isTrimmed(previous) && (!onlyDots || length > 2)
	}
	for i := 0; i < len(raw); {
		c, width := unescape(raw, i)
		switch {
		case c == '/' || c == '\\':
			s.slash = s.slash || c == '/' && width == 3
			s.backslash = s.backslash || c == '\\'
			s.empty = s.empty || length == 0 && i > 0
			end()
			length, onlyDots, escaped, ended = 0, true, false, false
		case c == ';':
			s.semicolon, s.escapedSemicolon = true, s.escapedSemicolon || width == 3
			end()
			ended = true
		case width == 3 && (c == '%' || c == '?' || c == '#'):
			s.twice = true
			fallthrough
		default:
			s.trims = s.trims || c == 0
			if !ended {
				onlyDots = onlyDots && c == '.'
				escaped = escaped || width == 3
				length++
			}
		}
		previous = c
		i += width
	}
	end()
	return s
}

// cutAuthority removes the scheme and the host of a target that has them, and reports whether it has. A server that takes the target for a
// reference to a resource reads //host/path as the path of another host.
func cutAuthority(raw string) (path string, found bool) {
	rest := strings.TrimLeft(raw, `/\`)
	if len(raw)-len(rest) < 2 {
		scheme, remainder, has := strings.Cut(raw, "://")
		if !has || strings.ContainsAny(scheme, "/\\") {
			return raw, false
		}
		rest = remainder
	}
	slash := strings.IndexAny(rest, `/\`)
	if slash < 0 {
		return "/", true
	}
	return rest[slash:], true
}

// Set has the readings of a path.
type Set struct {
	// Paths are different. The first one is the usual reading.
	Paths []string
	// Unknown is true if there are more readings than the bounds admit.
	Unknown bool

	combinations, work int
}

// Of returns the readings of a path as the client has sent it, without the query.
func Of(raw string) *Set {
	r := &Set{}
	beforeHash, _, hash := strings.Cut(raw, "#")
	r.add(beforeHash)
	if hash {
		r.add(raw)
	}
	if r.Unknown {
		r.Paths = r.Paths[:1] // the others do not matter
	}
	return r
}

// add adds the readings of raw, with and without an authority, and decoded once more as behind a proxy that decodes the path.
func (r *Set) add(raw string) {
	r.addTarget(raw)
	if !surveyOf(raw).twice {
		return
	}
	once := decodeOnce(raw)
	r.addTarget(once)
	if beforeHash, _, hash := strings.Cut(once, "#"); hash {
		r.addTarget(beforeHash)
	}
}

func (r *Set) addTarget(raw string) {
	r.addNotations(raw)
	if inner, ok := cutAuthority(raw); ok {
		r.addNotations(inner)
	}
}

// decodeOnce returns the path that a server gets from a proxy that has decoded it.
func decodeOnce(raw string) string {
	once := make([]byte, 0, len(raw))
	for i := 0; i < len(raw); {
		c, width := unescape(raw, i)
		once = append(once, c)
		i += width
	}
	path, _, _ := strings.Cut(string(once), "?")
	return path
}

// addNotations adds the readings of raw in all notations that can differ for it.
func (r *Set) addNotations(raw string) {
	s := surveyOf(raw)
	notations := s.notations()
	r.combinations += len(notations)
	r.work += len(notations) * len(raw)
	several := len(r.Paths) > 0 || len(notations) > 1
	if r.Unknown = r.Unknown || several && (r.combinations > maxReadings || r.work > MaxBytes); r.Unknown {
		notations = notations[:1] // the usual reading, if it is the first one
		if len(r.Paths) > 0 {
			return
		}
	}
	for _, n := range notations {
		r.addNotation(raw, n)
	}
}

// notations returns the notations whose readings can differ, the usual one first.
func (s *survey) notations() []notation {
	notations := []notation{usual()}
	vary := func(applies bool, change func(*notation)) {
		for _, n := range notations {
			if !applies || len(notations) > maxReadings { // more are not read
				return
			}
			if change(&n); !slices.Contains(notations, n) {
				notations = append(notations, n)
			}
		}
	}
	vary(s.dots, func(n *notation) { n.dots = noDots })
	vary(s.escapedDots, func(n *notation) { n.dots = plainDots })
	vary(s.slash && (s.dots || s.semicolon || s.trims), func(n *notation) { n.slash = false })
	vary(s.backslash, func(n *notation) { n.backslash = true })
	vary(s.semicolon, func(n *notation) { n.params = plainParams })
	vary(s.escapedSemicolon, func(n *notation) { n.params = escapedParams })
	vary(s.trims, func(n *notation) { n.trim = true })
	vary(s.dots && s.empty, func(n *notation) { n.empty = n.dots != noDots })
	return notations
}

func (r *Set) addNotation(raw string, n notation) {
	var buffer [512]byte
	var starts [64]int
	text := n.read(buffer[:0], starts[:0], raw)
	if !slices.ContainsFunc(r.Paths, func(existing string) bool { return existing == string(text) }) {
		r.Paths = append(r.Paths, string(text))
	}
}

// hexDigit returns the value of a hexadecimal digit, -1 for any other byte.
func hexDigit(c byte) int {
	switch {
	case '0' <= c && c <= '9':
		return int(c - '0')
	case 'a' <= c && c <= 'f':
		return int(c-'a') + 10
	case 'A' <= c && c <= 'F':
		return int(c-'A') + 10
	default:
		return -1
	}
}
