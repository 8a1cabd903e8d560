package hint

import (
	"strings"
	"unicode"
)

// Meant returns the candidate that is probably meant by a name: the [Nearest] one, or the only one that has all words of the name, or whose
// words are all in the name: "fixed" is FixedWindow, and "ClientIP" is IP. It returns "" if there is no such candidate, or the text is one of them.
func Meant(text string, candidates []string) string {
	if near := Nearest(text, candidates); near != "" {
		return near
	}
	found := ""
	for _, candidate := range candidates {
		if candidate == text {
			return ""
		}
		if a, b := words(text), words(candidate); !within(a, b) && !within(b, a) {
			continue
		}
		if found != "" {
			return ""
		}
		found = candidate
	}
	return found
}

// words returns the words of a name in lower case: of onStoreFailure, on_store_failure and on-store-failure they are on, store and failure.
func words(name string) (list []string) {
	begin, previous := true, 'A'
	for _, r := range name {
		switch {
		case !unicode.IsLetter(r) && !unicode.IsDigit(r):
			begin = true
			continue
		case begin || unicode.IsUpper(r) && !unicode.IsUpper(previous):
			list = append(list, "")
		}
		list[len(list)-1] += string(unicode.ToLower(r))
		begin, previous = false, r
	}
	return list
}

// within reports whether all words of part are in whole, in this order. A word of part can be the beginning of one of at least three letters.
func within(part, whole []string) bool {
	const least = 3 // letters of a beginning
	i := 0
	for _, word := range whole {
		if i < len(part) && (word == part[i] || len(part[i]) >= least && strings.HasPrefix(word, part[i])) {
			i++
		}
	}
	return i == len(part) && i > 0
}

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
	name = strings.NewReplacer("-", "", "_", "", " ", "").Replace(strings.ToLower(name))
	if stem, isPlural := strings.CutSuffix(name, "ies"); isPlural {
		return stem + "y"
	}
	return strings.TrimSuffix(name, "s")
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
