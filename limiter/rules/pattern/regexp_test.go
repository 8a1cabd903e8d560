package pattern_test

import (
	"strings"
	"testing"

	"github.com/weir-dev/weir/limiter/rules/pattern"
)

func TestValidateRegexp_BoundsTheLengthAndTheProgram(t *testing.T) {
	for name, tc := range map[string]struct {
		text, want string // part of the error; "" if the expression is valid
	}{
		"512 bytes":                 {strings.Repeat("x", 512), ""},
		"513 bytes":                 {strings.Repeat("x", 513), "at most 512 bytes"},
		"a program of 1000 steps":   {"x{998}", ""},
		"a program of 1001 steps":   {"x{999}", "compiles to 1001 instructions, but the maximum is 1000"},
		"not supported by RE2":      {"(?=x)", "invalid or unsupported Perl syntax"},
		"a bracket that closes all": {"x)(y", "unexpected )"}, // valid between the anchors
		"names":                     {`^[\p{L}\p{N}_-]{1,64}$`, ""},
		"6 Unicode classes":         {strings.Repeat(`\p{Ll}`, 6), ""},
		"7 Unicode classes":         {strings.Repeat(`\p{Ll}`, 5) + strings.Repeat(`\PL`, 2), "has 7 Unicode classes"},
		"large repetitions":         {strings.Repeat(`.{1000}`, 50), "compiles to 50002 instructions"},
		"Chinese, any case":         {"(?i)[a-z\\x{4e00}-\u9fa5]+", ""},
		"all letters, any case":     {`(?s-m:(?i)[b-\x{1e942}])`, "ignores the case of ranges with 125153 characters"},
		"a range from a dash":       {`(?i)[--𞥂]`, "ignores the case"},
		"an escaped dash":           {`(?si)[\--𞥂]`, "ignores the case"},
		"a case that counts":        {`[b-𞥂]`, ""},
	} {
		err := pattern.ValidateRegexp(tc.text, false)
		if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: error %v, want %q", name, err, tc.want)
		}
	}
}
