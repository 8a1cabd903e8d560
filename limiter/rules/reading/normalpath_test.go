package reading_test

import (
	"testing"

	"github.com/weir-dev/weir/limiter/rules/reading"
)

func TestNormalPath_OfACleanPathIsThePathItself(t *testing.T) {
	for _, target := range []string{"/v1/search", "/v1/search?q=x", "/"} {
		if got := testing.AllocsPerRun(100, func() { reading.NormalPath(target) }); got > 0 {
			t.Errorf("%s: %v allocations, want none", target, got)
		}
	}
}

func BenchmarkNormalPath(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		reading.NormalPath("/v1/search?q=x")
	}
}
