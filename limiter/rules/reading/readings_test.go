package reading

import (
	"path"
	"slices"
	"strings"
	"testing"
)

func TestReadingsOf_HasWhatServersRead(t *testing.T) {
	for raw, want := range map[string][]string{
		"/v1/query":                       {"/v1/query"},
		"/v1/%71uery":                     {"/v1/query"},
		"//v1//query/":                    {"/v1/query", "/query"},
		"/v1/query/..%2F..":               {"/", "/v1/query/../.."},
		"/v1/query/%2e%2e%2f%2e%2e":       {"/", "/v1/query/../.."},
		"/v1/query/.%2F..":                {"/v1", "/v1/query/./.."},
		"/v1/query/%2e%2e/%2e%2e":         {"/", "/v1/query/../.."},
		"/x/../v1/query/..%2F..":          {"/", "/x/../v1/query/../..", "/v1/query/../.."},
		"/v1/..%2Fx/../login":             {"/login", "/v1/../x/../login", "/v1/login"},
		"/v1/x//../login":                 {"/v1/login", "/v1/x/../login", "/v1/x/login"},
		`/v1\login`:                       {`/v1\login`, "/v1/login"},
		"/v1%5clogin":                     {`/v1\login`, "/v1/login"},
		"/v1/login%20":                    {"/v1/login ", "/v1/login"},
		"/v1/login.":                      {"/v1/login.", "/v1/login"},
		"/v1/login%00.png":                {"/v1/login\x00.png", "/v1/login"},
		"/v1/login%00/x":                  {"/v1/login\x00/x", "/v1/login"},
		"/v1/login;x=1":                   {"/v1/login;x=1", "/v1/login"},
		"/v1/..;/v1/login":                {"/v1/..;/v1/login", "/v1/login"},
		"/v1/a/..;/login":                 {"/v1/a/..;/login", "/v1/login"},
		"/v1/login%3Bx":                   {"/v1/login;x", "/v1/login"},
		"/v1/login#/x":                    {"/v1/login", "/v1/login#/x"},
		"/x#/../v1/login":                 {"/x", "/v1/login"},
		"//evil.example/v1/login":         {"/evil.example/v1/login", "/v1/login"},
		`/\evil.example/v1/login`:         {`/\evil.example/v1/login`, "/v1/login"},
		"http://api.web.example/v1/login": {"/v1/login"},
		"/v1/%256Cogin":                   {"/v1/%6Cogin", "/v1/login"},
		"/v1/query/%252e%252e%252fx":      {"/v1/query/%2e%2e%2fx", "/v1/x"},
		"/v1/...":                         {"/v1/..."},
		"":                                {"/"},
		"v1/login":                        {"/v1/login"},
	} {
		got := Of(raw)
		for _, one := range want {
			if !slices.Contains(got.Paths, one) {
				t.Errorf("%q: %q misses %q", raw, got.Paths, one)
			}
		}
		if got.Unknown || got.Paths[0] != NormalPath(raw) {
			t.Errorf("%q: unknown %v, first reading %q, want the usual one, %q", raw, got.Unknown, got.Paths[0], NormalPath(raw))
		}
		if usual, rawPath := PathsOf(raw); usual != got.Paths[0] || rawPath == "" && len(got.Paths) > 1 {
			t.Errorf("%q: path %q, raw path %q, want one, because there are several readings: %q", raw, usual, rawPath, got.Paths)
		}
	}
}

// FuzzNormalPath compares with the functions of the standard library, and checks that each path with several readings has a RawPath.
func FuzzNormalPath(f *testing.F) {
	for _, seed := range []string{
		"/v1//search/../search/?q=x", "/v1/%73earch", "/v1%2Fsearch", "/%zz/..", "a/b", "", "/..", "/%2e%2e/x", "/a/./b/.", "//", "/a%2f%2f..", "/;/..", "/a;.",
		"/%", "/%2", "/a.", "/.a", "/...", "/a#b?c", "/a?b#c", "/\\..\\", "/%5c", "/%253B", "/%25", "http:/a", "http://a", "/a%00", "/..%3B", "/%3F/..",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, target string) {
		p := target
		if i := strings.IndexAny(p, "?#"); i >= 0 {
			p = p[:i]
		}
		var b strings.Builder
		for i := 0; i < len(p); {
			c, width := unescape(p, i)
			b.WriteByte(c)
			i += width
		}
		if p = b.String(); !strings.HasPrefix(p, "/") {
			p = "/" + p
		}
		want := path.Clean(p)
		if got := NormalPath(target); got != want {
			t.Errorf("%q is read as %q, want %q", target, got, want)
		}
		usual, rawPath := PathsOf(target)
		raw, _, _ := strings.Cut(target, "?")
		all := Of(raw)
		if usual != want || all.Paths[0] != want {
			t.Errorf("%q: path %q, first reading %q, want %q", target, usual, all.Paths[0], want)
		}
		if rawPath == "" && (len(all.Paths) > 1 || all.Unknown) {
			t.Errorf("%q has several readings and no RawPath: %q", target, all.Paths)
		}
	})
}
