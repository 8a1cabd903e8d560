package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func fakePackages() []string {
	names := []string{
		"cmd/weir", "internal/compile", "limiter", "limiter/rules", "test/crd", "test/kubernetes", "test/manifests", "test/reliability",
	}
	for i, name := range names {
		names[i] = modulePath + name
	}
	return names
}

// names returns the packages of batches, each with its flags and environment, which decide whether Go finds a result in its cache.
func names(batches []batch) map[string]string {
	m := map[string]string{}
	for _, b := range batches {
		for _, pkg := range b.packages {
			m[short(pkg)] = strings.Join(slices.Concat(b.flags, b.env), " ") + " "
		}
	}
	return m
}

func TestNewPlan_RunsAPackageInOneBatch(t *testing.T) {
	const plain, race = "-p=4 ", "-p=4 -race CGO_ENABLED=1 "
	tests := map[string]struct {
		plan                    plan
		together, waiting, last map[string]string
	}{
		"test": {
			newPlan(targetTest, false, fakePackages(), "/lock"),
			map[string]string{"cmd/weir": plain, "internal/compile": plain, "limiter": plain, "limiter/rules": plain, "test/crd": plain},
			map[string]string{},
			map[string]string{},
		},
		"test-all": {
			newPlan(targetTestAll, true, fakePackages(), "/lock"),
			map[string]string{
				"cmd/weir": race, "internal/compile": plain, "limiter": race, "limiter/rules": race, "test/crd": plain, "test/manifests": plain,
			},
			map[string]string{"test/kubernetes": "WEIR_TEST_ALONE=/lock "},
			map[string]string{"test/reliability": "-p=1 "},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			together := names(slices.Concat(tt.plan.concurrent, tt.plan.others))
			got := []map[string]string{together, names(tt.plan.waiting), names(tt.plan.last)}
			if diff := cmp.Diff([]map[string]string{tt.together, tt.waiting, tt.last}, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			if want := len(tt.together) + len(tt.waiting) + len(tt.last); tt.plan.size() != want {
				t.Errorf("%d packages, want %d", tt.plan.size(), want)
			}
		})
	}
}

// Otherwise make test-all would repeat the tests of make test RACE=1 in CI.
func TestNewPlan_BothTargetsTestAPackageAlike(t *testing.T) {
	smaller, larger := newPlan(targetTest, true, fakePackages(), "/lock"), newPlan(targetTestAll, true, fakePackages(), "/lock")
	all := names(larger.all())
	for pkg, flags := range names(smaller.all()) {
		if all[pkg] != flags {
			t.Errorf("%s: %q in make test, %q in make test-all", pkg, flags, all[pkg])
		}
	}
}

func TestOrder_StartsSlowPackagesFirst(t *testing.T) {
	p := newPlan(targetTest, false, fakePackages(), "/lock")
	p.order(history{Seconds: map[string]float64{"internal/compile": 90, "cmd/weir": 1}}.seconds)
	got := make([]string, 0, 5)
	for _, pkg := range p.others[0].packages {
		got = append(got, short(pkg))
	}
	if want := []string{"internal/compile", "test/crd", "limiter", "limiter/rules", "cmd/weir"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestNeeded_LeavesOutWhatNoTestImports(t *testing.T) {
	got := needed([]string{
		"example.com/dependency\ttrue\tfmt",
		"example.com/current\tfalse\t",
		"example.com/a\ttrue\texample.com/dependency", // the go command compiles only its variant for tests
		"example.com/a [example.com/a.test]\ttrue\texample.com/dependency\texample.com/current",
		"example.com/a.test\ttrue\texample.com/a [example.com/a.test]",
	})
	if want := []string{"example.com/dependency", "example.com/a [example.com/a.test]"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
