package main

import (
	"cmp"
	"slices"
)

// A batch is what one go command tests.
type batch struct {
	module   string // folder; . is this module
	packages []string
	flags    []string
	env      []string
}

// A plan is the order in which packages are tested.
type plan struct {
	target     string
	race       bool    // concurrent packages run with the race detector
	aside      []batch // at the same time as concurrent and others
	concurrent []batch
	others     []batch // after concurrent
	waiting    []batch // at the same time as others; they end after all of the above, see latency.Alone
	last       []batch // alone
}

// newPlan distributes packages, which are import paths. The same package has the same flags and environment in both targets, so that make
// test-all finds in the cache of Go what make test RACE=1 has tested.
func newPlan(target string, race bool, packages []string, lock string) plan {
	p := plan{target: target, race: race}
	var concurrent, others, partly, timed []string
	for _, pkg := range packages {
		switch name := short(pkg); {
		case !inTier(target, name): // make test-all tests it
		case isTimed(name):
			timed = append(timed, pkg)
		case isPartlyTimed(name):
			partly = append(partly, pkg)
		case race && isConcurrent(name):
			concurrent = append(concurrent, pkg)
		default:
			others = append(others, pkg)
		}
	}
	// Four packages at the same time: most tests wait for servers.
	p.concurrent = batches(batch{packages: concurrent, flags: []string{"-p=4", "-race"}, env: []string{"CGO_ENABLED=1"}})
	p.others = batches(batch{packages: others, flags: []string{"-p=4"}})
	p.waiting = batches(batch{packages: partly, env: []string{"WEIR_TEST_ALONE=" + lock}})
	p.last = batches(batch{packages: timed, flags: []string{"-p=1"}})
	return p
}

// batches returns a batch if it has packages.
func batches(b batch) []batch {
	b.module = "."
	if len(b.packages) == 0 {
		return nil
	}
	return []batch{b}
}

// addModules adds the other modules. They read files outside of themselves, which the cache of Go does not track.
func (p *plan) addModules() {
	for _, module := range modules() {
		p.aside = append(p.aside, batch{module: module, packages: []string{"./..."}, flags: []string{"-count=1"}})
	}
}

// all returns the batches of this module.
func (p *plan) all() []batch { return slices.Concat(p.concurrent, p.others, p.waiting, p.last) }

// size returns the number of packages of this module.
func (p *plan) size() int {
	n := 0
	for _, b := range p.all() {
		n += len(b.packages)
	}
	return n
}

// order sorts the packages of each batch. The go command starts them in this order: the slow ones first, so that none of them runs alone at
// the end.
func (p *plan) order(seconds func(pkg string) float64) {
	for _, b := range p.all() {
		slices.SortStableFunc(b.packages, func(x, y string) int { return cmp.Compare(seconds(short(y)), seconds(short(x))) })
	}
}
