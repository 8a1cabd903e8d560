// Command mutate changes the code in small ways, and checks that the tests of the package notice each change. See README.md.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/weir-dev/weir/hack/command"
)

const usage = `Mutation testing: changes the code in small ways (mutants), and checks that a test of the package fails for each.

  make mutate                                    all packages (hours)
  make mutate MUTATE=./limiter/engine            one package
  make mutate MUTATE='-again ./limiter/engine'   only the mutants that survived earlier runs
  make mutate MUTATE='-rest ./limiter/engine'    only the mutants that earlier runs did not test
  make mutate MUTATE='-run boundary ./limiter'   only mutants whose file, function, rule or text contains a word
  make mutate-diff                               only the lines that changed since the branch left main

The report is in dist/mutation.md. Explain equivalent mutants in hack/mutate/survivors.yaml.

`

type options struct {
	diff, run   string
	again, list bool
	rest        bool // only the mutants without a result
	own         bool // only the tests of the package itself
	sample      int  // 0: all
	workers     int
	patterns    []string
}

func main() {
	command.Main("mutate", func(ctx context.Context) error { return mutate(ctx, os.Args[1:], os.Stdout) })
}

func parse(args []string, out io.Writer) (options, error) {
	var o options
	flags := flag.NewFlagSet("mutate", flag.ContinueOnError)
	flags.SetOutput(out)
	flags.StringVar(&o.diff, "diff", "", "only the lines that changed since the common ancestor with this commit")
	flags.BoolVar(&o.again, "again", false, "only the mutants that survived earlier runs, from dist/mutation")
	flags.BoolVar(&o.rest, "rest", false, "only the mutants that have no result in dist/mutation; the table contains all results")
	flags.BoolVar(&o.own, "own", false, "only the tests of the package itself, not those of other packages; then -again runs all on the survivors")
	flags.StringVar(&o.run, "run", "", "only mutants whose description contains this text")
	flags.BoolVar(&o.list, "list", false, "print the mutants, and run no tests")
	flags.IntVar(&o.sample, "sample", 0, "test at most this number of mutants, evenly distributed over the selected ones (0: all)")
	flags.IntVar(&o.workers, "workers", max(1, runtime.NumCPU()/2), "mutants to test at the same time")
	flags.Usage = func() {
		fmt.Fprint(out, usage)
		flags.PrintDefaults()
	}
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if o.sample < 0 {
		return o, errors.New("-sample must not be negative")
	}
	if o.workers < 1 {
		return o, errors.New("-workers must be at least 1")
	}
	if o.patterns = flags.Args(); len(o.patterns) == 0 {
		o.patterns = defaultPackages()
	}
	return o, nil
}

func mutate(ctx context.Context, args []string, out io.Writer) error {
	o, err := parse(args, out)
	if err != nil {
		return err
	}
	root, err := os.Getwd()
	if err != nil {
		return err
	}
	survivors, err := readSurvivors(filepath.Join(root, "hack", "mutate", "survivors.yaml"))
	if err != nil {
		return err
	}
	packages, err := listPackages(ctx, root, o.patterns)
	if err != nil {
		return err
	}
	var changed changes
	if o.diff != "" {
		if changed, err = changedSince(ctx, root, o.diff); err != nil {
			return err
		}
		if packages = changed.packages(packages); len(packages) == 0 {
			fmt.Fprintf(out, "mutate: no code changed since %s in %s\n", o.diff, strings.Join(o.patterns, " "))
			return nil
		}
	}
	r := &runner{options: o, root: root, out: out}
	if r.temporary, err = os.MkdirTemp("", "weir-mutate-"); err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(r.temporary) }()
	return r.findAndTest(ctx, survivors, packages, changed)
}

// findAndTest tests the mutants that the options ask for, and reports the results.
func (r *runner) findAndTest(ctx context.Context, survivors []*Survivor, packages []string, changed changes) error {
	all, err := r.find(ctx, packages)
	if err != nil {
		return err
	}
	selected, err := r.choose(all, changed)
	if err != nil {
		return err
	}
	if r.list {
		for _, m := range selected {
			fmt.Fprintf(r.out, "%s:%d: %s: `%s` → `%s`\n", m.File, m.Line, m.Rule, m.Before, m.After)
		}
		return nil
	}
	earlier, err := r.results(packages)
	if err != nil {
		return err
	}
	err = r.test(ctx, selected) // interrupted, the results so far count
	if r.rest {
		complete(all, earlier)
		selected = all
	}
	return errors.Join(err, r.save(all, earlier, packages), r.report(survivors, all, selected, packages))
}

// runner finds mutants and tests them.
type runner struct {
	options
	root, temporary string
	out             io.Writer

	mu      sync.Mutex
	printed time.Time
}

// find returns all mutants of packages.
func (r *runner) find(ctx context.Context, packages []string) ([]*Mutant, error) {
	fmt.Fprintf(r.out, "mutate: looking for mutants in %d packages\n", len(packages))
	all, err := goMutants(ctx, r.root, r.temporary, packages, r.own)
	if err != nil {
		return nil, err
	}
	for _, p := range packages {
		lua, err := luaMutants(r.root, p)
		if err != nil {
			return nil, err
		}
		all = append(all, lua...)
	}
	slices.SortStableFunc(all, func(a, b *Mutant) int { return strings.Compare(a.Package, b.Package) })
	number(all)
	return all, nil
}

// choose returns the mutants that the options ask for.
func (r *runner) choose(all []*Mutant, changed changes) ([]*Mutant, error) {
	selected := slices.Clone(all)
	if r.diff != "" {
		selected = slices.DeleteFunc(selected, func(m *Mutant) bool { return !changed.contain(m) })
	}
	if r.run != "" {
		selected = slices.DeleteFunc(selected, func(m *Mutant) bool {
			return !strings.Contains(describe(m)+" "+m.Rule, r.run)
		})
	}
	if r.again || r.rest {
		results, err := r.results(packagesOf(all))
		if err != nil {
			return nil, err
		}
		selected = slices.DeleteFunc(selected, func(m *Mutant) bool {
			last := results[m.key()]
			if r.rest {
				return last != nil
			}
			return last == nil || !last.alive()
		})
	}
	return r.sampled(selected), nil
}

// sampled returns all mutants, or a sample if the options ask for one.
func (r *runner) sampled(all []*Mutant) []*Mutant {
	if r.sample == 0 || len(all) <= r.sample {
		return all
	}
	fmt.Fprintf(r.out, "mutate: a sample of %d of %d mutants\n", r.sample, len(all))
	return sample(all, r.sample)
}

// sample returns n mutants, evenly distributed over all.
func sample(all []*Mutant, n int) []*Mutant {
	some := make([]*Mutant, n)
	for i := range some {
		some[i] = all[i*len(all)/n]
	}
	return some
}

func packagesOf(mutants []*Mutant) []string {
	var packages []string
	for _, m := range mutants {
		if !slices.Contains(packages, m.Package) {
			packages = append(packages, m.Package)
		}
	}
	return packages
}

// test sets the status of mutants.
func (r *runner) test(ctx context.Context, mutants []*Mutant) error {
	total, done := len(mutants), 0
	start := time.Now()
	for _, p := range packagesOf(mutants) {
		var here []*Mutant
		for _, m := range mutants {
			if m.Package == p {
				here = append(here, m)
			}
		}
		if err := r.testPackage(ctx, p, here, func(m *Mutant) {
			r.mu.Lock()
			defer r.mu.Unlock()
			done++
			if m.alive() {
				fmt.Fprintln(r.out, describe(m))
			}
			if time.Since(r.printed) > 20*time.Second || done == total {
				fmt.Fprintf(r.out, "mutate: %d of %d mutants after %s\n", done, total, time.Since(start).Round(time.Second))
				r.printed = time.Now()
			}
		}); err != nil {
			return err
		}
	}
	return nil
}

func (r *runner) testPackage(ctx context.Context, folder string, mutants []*Mutant, done func(*Mutant)) error {
	skip := ""
	if slices.ContainsFunc(mutants, (*Mutant).isLua) {
		skip = goldenTests
	}
	folders := testFolders(folder, r.own)
	builder := &suite{root: r.root, folder: folder}
	schema, err := newSchema(r.root, folder, r.temporary, mutants, func(overlay string) ([]byte, error) {
		return builder.build(ctx, filepath.Join(r.temporary, "schema.test"), overlay)
	})
	if err != nil {
		return err
	}
	alone := 0
	for _, m := range mutants {
		if m.id == 0 && !m.isLua() {
			alone++
		}
	}
	var suites []*suite
	for _, f := range folders {
		s, err := newSuite(ctx, r.root, f, r.temporary, skip, schema.overlay)
		if err != nil {
			return err
		}
		fmt.Fprintf(r.out, "mutate: %s: %d mutants, %d with a build of their own; %d quick tests of %s take %s, %d others %s\n",
			folder, len(mutants), alone, len(s.quick), f, s.quickTime.Round(time.Millisecond), len(s.slow), s.slowTime.Round(time.Millisecond))
		suites = append(suites, s)
	}
	queue := make(chan *Mutant, len(mutants))
	for _, m := range mutants {
		queue <- m
	}
	close(queue)
	failures := make(chan error, r.workers)
	for range r.workers {
		go func() { failures <- r.work(ctx, suites, queue, done) }()
	}
	for range r.workers {
		err = errors.Join(err, <-failures)
	}
	return err
}

func (r *runner) work(ctx context.Context, suites []*suite, queue <-chan *Mutant, done func(*Mutant)) error {
	folder, err := os.MkdirTemp(r.temporary, "worker-")
	if err != nil {
		return err
	}
	for m := range queue {
		for _, s := range suites {
			if err := s.try(ctx, m, folder); err != nil {
				return err
			}
			if m.Status != Survived {
				break
			}
		}
		if m.Status == Survived && m.uncovered {
			m.Status = NotCovered
		}
		done(m)
	}
	return nil
}

// report writes the results, and returns an error if a mutant survived without an explanation or a score is too low.
func (r *runner) report(survivors []*Survivor, all, tested []*Mutant, packages []string) error {
	isWhole := r.diff == "" && r.run == "" && !r.again && !r.rest && r.sample == 0
	// A mutant that was not tested has no status: its explanation is neither right nor wrong.
	why, problems := explain(survivors, all, packages)
	results := rows(tested, why)
	text := markdown(results, tested, why, problems)
	if err := os.MkdirAll(filepath.Join(r.root, "dist"), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(r.root, "dist", "mutation.md"), []byte(text), 0o600); err != nil {
		return err
	}
	fmt.Fprint(r.out, table(results))
	open := 0
	for _, m := range tested {
		if m.alive() && why[m] == nil {
			open++
		}
	}
	for _, p := range problems {
		fmt.Fprintln(r.out, p)
	}
	if open > 0 {
		problems = append(problems, fmt.Sprintf("%d mutants survived without an explanation", open))
	}
	for _, row := range results {
		if isWhole && row.score() < target {
			problems = append(problems, fmt.Sprintf("%s: the score is below %.0f %%", row.name, 100*target))
		}
	}
	if len(problems) > 0 {
		return fmt.Errorf("%s. See dist/mutation.md and hack/mutate/README.md", strings.Join(problems, "; "))
	}
	return nil
}
