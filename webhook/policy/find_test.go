package policy

import (
	"testing"

	"github.com/weir-dev/weir/internal/compile/budget"
)

func TestFind_ReturnsTheExcessOfThePolicy(t *testing.T) {
	over := []budget.Excess{{Index: 3}, {Index: 5}}
	for index, want := range map[int]bool{3: true, 5: true, 0: false, 4: false} {
		if got, found := find(over, index); found != want || found && got.Index != index {
			t.Errorf("policy %d: excess %+v, %v, want %v", index, got, found, want)
		}
	}
}
