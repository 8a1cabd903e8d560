package hint

import "strings"

// Nearest returns the candidate that is probably meant by a text: the same one in other letters, or the nearest one that differs in few characters.
// It returns "" if there is no such candidate, or the text is one of them.
func Nearest(text string, candidates []string) string {
	best, least := "", allowedEdits(text)+1
	for _, candidate := range candidates {
		if candidate == text {
			return ""
		}
		if normalize(candidate) == normalize(text) && text != "" {
			return candidate
		}
		if n := edits(strings.ToLower(text), strings.ToLower(candidate), least); n < least {
			best, least = candidate, n
		}
	}
	return best
}

// normalize removes what spellings of one name differ in: case, hyphens, underscores, spaces and a plural.
func normalize(name string) string {
	return strings.TrimSuffix(strings.NewReplacer("-", "", "_", "", " ", "").Replace(strings.ToLower(name)), "s")
}

// allowedEdits is the number of edits up to which a name of this length is taken for a misspelled one.
func allowedEdits(name string) int {
	switch n := len(name); {
	case n < 3:
		return 0
	case n < 6:
		return 1
	default:
		return 2
	}
}

// edits returns the number of inserted, removed, replaced and swapped bytes between two texts, at most most.
func edits(a, b string, most int) int {
	if d := len(a) - len(b); d >= most || -d >= most {
		return most
	}
	before, previous, current := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range previous {
		previous[j] = j
	}
	for i := 1; i <= len(a); i++ {
		current[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			current[j] = min(previous[j]+1, current[j-1]+1, previous[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				current[j] = min(current[j], before[j-2]+1)
			}
		}
		before, previous, current = previous, current, before
	}
	return min(previous[len(b)], most)
}
