// Package documented reads promises from the documentation, so that a test can compare them with the code. The expectation of such a test
// does not come from the constant that it tests.
package documented

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Equal fails the test if the duration with that name in the code differs from the one in the sentence of [Duration].
func Equal(t testing.TB, name string, got time.Duration, page, pattern string) {
	t.Helper()
	if want := Duration(t, page, pattern); got != want {
		t.Errorf("%s is %v, docs/%s promises %v", name, got, page, want)
	}
}

// Duration returns the duration in a sentence of a page below docs. It matches the first group of pattern, a regular expression. Spaces in
// pattern match line breaks. The duration is a number with a unit: "10 s", "750ms", "ten minutes", "half a minute". A page without the
// sentence fails the test.
func Duration(t testing.TB, page, pattern string) time.Duration {
	t.Helper()
	text := read(t, page)
	found := regexp.MustCompile(pattern).FindStringSubmatch(text)
	if found == nil {
		t.Fatalf("docs/%s does not match %q: if the sentence changed, change the pattern; if the promise is gone, remove the test", page, pattern)
	}
	d, err := parse(found[1])
	if err != nil {
		t.Fatalf("docs/%s: %q: %v", page, found[0], err)
	}
	return d
}

// read returns a page with one space in place of each sequence of white space.
func read(t testing.TB, page string) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for ; ; dir = filepath.Dir(dir) {
		text, err := os.ReadFile(filepath.Join(dir, "docs", filepath.FromSlash(page)))
		if err == nil {
			return strings.Join(strings.Fields(string(text)), " ")
		}
		if dir == filepath.Dir(dir) {
			t.Fatalf("docs/%s is in no parent folder of the test", page)
		}
	}
}

// parse parses "10 s", "750ms", "ten minutes" and "half a minute".
func parse(text string) (time.Duration, error) {
	if d, err := time.ParseDuration(strings.ReplaceAll(text, " ", "")); err == nil && d != 0 {
		return d, nil
	}
	count, unit, _ := strings.Cut(strings.Replace(text, "half a ", "half ", 1), " ")
	units := map[string]time.Duration{"second": time.Second, "minute": time.Minute, "hour": time.Hour, "day": 24 * time.Hour}
	one, known := units[strings.TrimSuffix(unit, "s")]
	if count == "half" && known {
		return one / 2, nil
	}
	numbers := map[string]int{"one": 1, "two": 2, "three": 3, "five": 5, "ten": 10, "thirty": 30}
	if n, err := strconv.Atoi(count); err == nil {
		numbers[count] = n
	}
	n, counted := numbers[count]
	if !counted || !known {
		return 0, fmt.Errorf("%q is no duration such as 10 s, ten minutes or half a minute", text)
	}
	return time.Duration(n) * one, nil
}
