package route

import (
	"strings"
	"unicode/utf8"

	"github.com/weir-dev/weir/go/internal/limiter/rules"
	"github.com/weir-dev/weir/go/internal/limiter/rules/pattern"
)

const (
	// maxRuns is the number of parts between commas up to which regular expressions are compared with all values that they can be lines of.
	maxRuns = 8
	// maxParts is the number of parameters of a query, and of parts of a header between commas, that are looked up. The others are unknown.
	maxParts = 1024
	// bytesPerStep is how many bytes are compared with a text in the time of a step.
	bytesPerStep = 64
)

// routeHeader is a header or a parameter of a request.
type routeHeader struct {
	looked, found bool
	unknown       bool // the request can have it
	// value has the lines, joined with commas.
	value  string
	commas int // in value
	// lines are the lines; nil if value can be one of them or several.
	lines []string
	// parts are those of value between commas, and between is value between two commas; nil until they are needed.
	parts   map[string]bool
	between string
	// replaced is true if the gateway can have replaced bytes of value that are no UTF-8.
	replaced bool
}

// hostHeader is the name of the header that Envoy stores as the pseudo-header :authority, so that it is not among the headers.
const hostHeader = "host"

// bytewise returns text with a rune for each byte: the expressions of Envoy match bytes, and those of Go runes. A header and all that it is compared
// with are in this form.
func bytewise(text string) string {
	for i := range len(text) {
		if text[i] >= utf8.RuneSelf {
			runes := make([]rune, len(text))
			for j := range len(text) {
				runes[j] = rune(text[j])
			}
			return string(runes)
		}
	}
	return text
}

// headerOf returns the header or the parameter with a name of the table.
func (s *routeSearch) headerOf(name int) *routeHeader {
	h := &s.headers[name]
	if !h.looked {
		h.looked = true
		s.looked = append(s.looked, name)
		s.look(h, &s.table.names[name])
		h.commas = strings.Count(h.value, ",")
	}
	return h
}

// look sets a header or parameter to that of the request.
func (s *routeSearch) look(h *routeHeader, field *routeName) {
	key := field.name
	switch {
	case field.query:
		value, found := s.parameter(key)
		if h.unknown = !found && s.unparsed; found {
			h.lines, h.replaced = []string{value}, strings.Contains(value, "!")
		}
	case key == hostHeader:
		h.lines = []string{s.request.Host}
	case s.request.Lines != nil:
		h.lines = s.request.Lines(key)
	default:
		h.value, h.found = s.request.Headers[key]
		h.value, h.replaced = bytewise(h.value), strings.Contains(h.value, "!")
		return
	}
	for i := range h.lines {
		h.lines[i] = bytewise(h.lines[i])
	}
	h.found, h.value = len(h.lines) > 0, strings.Join(h.lines, ",")
}

// parameter returns the first value of a parameter of the query, without decoding. The query is parsed once, however many parameters the table has.
func (s *routeSearch) parameter(name string) (value string, found bool) {
	if !s.parsed {
		s.parse()
	}
	value, found = s.parameters[name]
	return value, found
}

func (s *routeSearch) parse() {
	s.parsed, s.parameters = true, map[string]string{}
	query := s.query
	for n := 0; query != "" && n < maxParts; n++ {
		var pair string
		pair, query, _ = strings.Cut(query, "&")
		key, value, _ := strings.Cut(pair, "=")
		if _, found := s.parameters[key]; !found {
			s.parameters[key] = value
		}
	}
	s.unparsed = query != ""
}

// header compares a header as Envoy does: since release 1.39, a header matches if one of its lines matches, and before if the lines match that
// are joined with commas. If the result differs, or the lines are unknown and can be such that it differs, it is unknown.
func (s *routeSearch) header(h *pattern.Header, received *routeHeader) (result routeResult) {
	switch {
	case received.unknown:
		return resultUnknown
	case !received.found:
		return resultNo
	case received.replaced && h.Type == rules.HeaderRegex:
		return resultUnknown // it can match what the gateway has replaced and not !, or the reverse
	case received.lines != nil:
		result = s.lines(h, received)
	case received.commas == 0:
		result = s.value(h, received.value)
	case h.Type == rules.HeaderExact:
		result = s.hasRun(received, h.Value)
	default:
		result = s.runs(h, received)
	}
	if result == resultYes && received.replaced {
		return resultUnknown
	}
	return result
}

// lines compares a header whose lines are known.
func (s *routeSearch) lines(h *pattern.Header, received *routeHeader) routeResult {
	if len(received.lines) == 1 {
		return s.value(h, received.lines[0])
	}
	each := resultNo
	for _, line := range received.lines {
		if s.spend(1) {
			return resultUnknown
		}
		if each = max(each, s.value(h, line)); each == resultUnknown {
			return each
		}
	}
	if s.value(h, received.value) != each {
		return resultUnknown
	}
	return each
}

// hasRun compares an exact text with a value with commas. The text can be one of its lines if it occurs between commas.
func (s *routeSearch) hasRun(received *routeHeader, text string) routeResult {
	switch {
	case !received.split():
		return resultUnknown
	case !strings.Contains(text, ","):
		return resultOf(false, !received.parts[text])
	case s.spend(1 + len(received.value)/bytesPerStep):
		return resultUnknown
	default:
		return resultOf(false, !strings.Contains(received.between, ","+text+","))
	}
}

// split sets the parts of the value, once for all texts. It reports whether there are not too many.
func (h *routeHeader) split() bool {
	if h.parts != nil {
		return len(h.parts) > 0
	}
	h.parts = map[string]bool{}
	if h.commas >= maxParts {
		return false
	}
	h.between = "," + h.value + ","
	for part := range strings.SplitSeq(h.value, ",") {
		h.parts[part] = true
	}
	return true
}

// runs compares a value with commas, each of which can separate two lines. It matches if it does as a whole, and if one line does for each way in
// which the commas can separate lines.
func (s *routeSearch) runs(h *pattern.Header, received *routeHeader) routeResult {
	if received.commas >= maxRuns {
		return resultUnknown
	}
	value := received.value
	parts := strings.Split(value, ",")
	begins := make([]int, len(parts)+1)
	for i, part := range parts {
		begins[i+1] = begins[i] + len(part) + 1
	}
	some := false
	without := make([]bool, len(parts)+1) // whether the parts before can be lines that all do not match
	without[0] = true
	for i := range parts {
		if !without[i] {
			continue
		}
		for j := i + 1; j <= len(parts); j++ {
			result := s.value(h, value[begins[i]:begins[j]-1])
			some = some || result != resultNo
			without[j] = without[j] || result != resultYes
		}
	}
	switch {
	case !without[len(parts)]:
		return resultYes
	case some:
		return resultUnknown
	default:
		return resultNo
	}
}
