package route

import "github.com/weir-dev/weir/go/internal/limiter/rules/pattern"

// The bounds of the comparisons of a request with the table of routes, in steps of regular expressions. Each namespace has steps of its own: without
// them, the expressions of one tenant would make the comparisons of the others unknown.
const (
	// maxRouteSteps is what a namespace can spend. Of the last lateSteps, each expression may take only pattern.MinSteps: expensive expressions must not
	// make the others of the namespace unknown, most of which end after few steps.
	maxRouteSteps = 30_000
	lateSteps     = 10_000
	// maxSharedSteps is what all namespaces together can spend. Above it, each has only its reserve.
	maxSharedSteps = 4 * maxRouteSteps
	// maxReserves is the sum of the reserves. They are equal for all namespaces with routes for the host of the request.
	maxReserves = 2 * maxRouteSteps
	// stepsPerByte are the steps that usual expressions of a namespace take together for a byte of the request. A namespace that has spent more has too
	// many or too expensive ones. Otherwise, the client can be the cause.
	stepsPerByte = 100
	// shortTexts is the size of texts, in bytes, for which the steps suffice for usual expressions.
	shortTexts = maxRouteSteps / stepsPerByte
)

// routeBudget has the steps of a namespace in a request.
type routeBudget struct {
	begun     bool
	spent     int
	short     bool // whether a comparison has had too few steps
	overspent bool // see measure
}

// setSteps sets the steps of all namespaces, before the request is compared with s.searched.
func (s *routeSearch) setSteps() {
	spenders := 0
	for _, p := range s.searched {
		spenders += p.spenders
	}
	s.shared, s.reserve = maxSharedSteps, min(maxRouteSteps, maxReserves/max(1, spenders))
}

// spendersOf returns the number of namespaces with matches whose comparison can take steps.
func spendersOf(matches []routeMatch) int {
	namespaces := map[int]bool{}
	for i := range matches {
		if m := &matches[i]; m.path != nil || len(m.uses) > 0 {
			namespaces[m.namespace] = true
		}
	}
	return len(namespaces)
}

// budget returns that of the namespace of the current match.
func (s *routeSearch) budget() *routeBudget {
	b := &s.budgets[s.namespace]
	if !b.begun {
		b.begun = true
		s.begun = append(s.begun, s.namespace)
	}
	return b
}

// left returns the steps that a namespace may still spend. It is negative after it has spent too many.
func (s *routeSearch) left(b *routeBudget) int {
	if s.shared < 0 {
		return s.reserve - b.spent
	}
	return maxRouteSteps - b.spent
}

// spend spends steps of the namespace of the current match, and reports whether it has spent too many.
func (s *routeSearch) spend(steps int) bool {
	b := s.budget()
	b.spent += steps
	s.shared -= steps
	b.short = b.short || s.left(b) < 0
	return s.left(b) < 0
}

func (s *routeSearch) pattern(p *pattern.Regexp, text string) routeResult {
	b := s.budget()
	if s.spend(0) {
		return resultUnknown
	}
	allowed := min(s.left(b), max(pattern.MinSteps, maxRouteSteps-lateSteps-b.spent))
	steps := allowed
	matches, certain := p.MatchesWithin(text, &steps, 0)
	b.short = b.short || !certain
	s.spend(allowed - steps)
	return resultOf(matches, certain)
}

// measure finds the namespaces that are overspent: their comparisons have had too few steps, and the client is not the cause. Their owner is, because
// they have spent so many steps for each byte, or several namespaces together are.
func (s *routeSearch) measure() {
	for _, i := range s.begun {
		if b := &s.budgets[i]; b.short {
			size := s.sizeOfTexts(i)
			b.overspent = b.spent >= stepsPerByte*size || s.shared < 0 && size <= shortTexts
		}
	}
}

func (s *routeSearch) overspent(match int) bool {
	return s.budgets[s.paths.matches[match].namespace].overspent
}

// sizeOfTexts returns the size of the path and of the headers that a namespace has conditions for, in bytes.
func (s *routeSearch) sizeOfTexts(namespace int) int {
	size := len(s.path)
	for _, name := range s.table.namespaces[namespace] {
		size += s.headers[name].sizeOfTexts() // 0 if it has not been looked up
	}
	return size
}

// sizeOfTexts returns the size of the texts with which an expression is compared. Of a value with commas, these are all runs of parts, so that a byte
// of it is on average in (parts + 1) * (parts + 2) / 6 texts.
func (h *routeHeader) sizeOfTexts() int {
	parts := h.commas + 1
	if h.lines != nil || parts > maxRuns {
		return len(h.value)
	}
	return len(h.value) * (parts + 1) * (parts + 2) / 6
}
