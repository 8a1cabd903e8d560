package selection

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"strconv"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/stored"
)

// After each step of a random history of policies and of two Limiters, Unselected has the policies that it has without the steps before.
func TestUnselected_IsTheSameAsWithoutTheStepsBefore(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	var u Unselected
	var listed Listed
	exist := map[string]*v1alpha1.RateLimitPolicy{}
	compilers := []Compiler{{KeyPrefix: "weir:", Memo: new(Memo)}, {KeyPrefix: "weir:", Memo: new(Memo)}}
	ruleSets := []*RuleSet{nil, nil}
	compiled := uint64(0)
	for step := range 1500 {
		name := fmt.Sprint("p", random.IntN(8))
		switch p := exist[name]; {
		case p == nil || random.IntN(8) == 0: // also another object of the same name
			created := policy(name, 1, 10)
			created.UID = types.UID(fmt.Sprint("uid-", step))
			exist[name] = &created
			listed.Set(&created)
		case random.IntN(4) == 0:
			delete(exist, name)
			listed.Remove(p)
		default:
			edited := p.DeepCopy()
			if random.IntN(2) == 0 {
				edited.Generation++
			}
			edited.Labels = map[string]string{"limiter": strconv.Itoa(random.IntN(3))}
			exist[name] = edited
			listed.Set(edited)
		}
		all, _ := listed.ListPolicies(t.Context())
		for i := range compilers {
			if random.IntN(3) == 0 && ruleSets[i] != nil {
				continue // it has not seen the step yet
			}
			selected := stored.Policies{}
			for _, p := range all.Namespaced {
				if p.Labels["limiter"] == strconv.Itoa(i) {
					selected.Namespaced = append(selected.Namespaced, p)
				}
			}
			ruleSets[i] = compilers[i].Compile(ruleSets[i], limiterAt(1), selected, Hashes{})
		}
		var fresh Unselected
		sets := []*RuleSet{ruleSets[0], ruleSets[1]}
		if random.IntN(20) == 0 {
			sets = sets[:1] // a Limiter is deleted
		}
		u.Compile(Inputs{Policies: all}, sets)
		fresh.Compile(Inputs{Policies: all}, sets)
		if !maps.Equal(u.Policies(), fresh.Policies()) {
			t.Fatalf("step %d: %v, want %v", step, u.Policies(), fresh.Policies())
		}
		if u.Compiled() == compiled {
			continue
		}
		compiled = u.Compiled()
	}
	if compiled == 0 || compiled > 1400 {
		t.Errorf("compiled after %d of 1500 steps, want some and not all", compiled)
	}
}
