// Command reliability runs every fault of package test/reliability against three limiter processes under load, and writes the effects on
// clients to docs/reference/outages.md.
//
//	go run ./hack/reliability
//	go run ./hack/reliability -fault 'latency'
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"

	"github.com/weir-dev/weir/hack/command"
	"github.com/weir-dev/weir/test/fixture"
	"github.com/weir-dev/weir/test/reliability"
)

// page is the path of the page that is written, relative to the root of the module.
const page = "docs/reference/outages.md"

func main() {
	fault := flag.String("fault", "", "regular expression that selects the faults to run; the page is written only if all faults are run")
	plan := reliability.Long()
	flag.IntVar(&plan.Rate, "rate", plan.Rate, "requests per second")
	flag.DurationVar(&plan.Hold, "hold", plan.Hold, "how long a fault lasts")
	flag.Parse()
	command.Main("reliability", func(ctx context.Context) error { return run(ctx, *fault, plan) })
}

func run(ctx context.Context, pattern string, plan reliability.Plan) (err error) {
	faults, err := selected(pattern)
	if err != nil {
		return err
	}
	if plan.Rate < 1 || plan.Hold <= 0 {
		return errors.New("-rate and -hold must be positive")
	}
	dir, err := os.MkdirTemp("", "weir-reliability-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	weir, err := fixture.BuildWeir(ctx, dir)
	if err != nil {
		return err
	}
	var results []reliability.Result
	for _, fault := range faults {
		fmt.Printf("%s: %s\n", fault.Name, fault.What)
		trial, err := reliability.Run(ctx, weir, fault, plan)
		if err != nil {
			return err
		}
		result := reliability.Measure(trial)
		results = append(results, result)
		for _, shortfall := range result.Shortfalls(fault.Want).All() {
			fmt.Println("  worse than expected:", shortfall)
		}
	}
	machine, err := thisMachine(ctx)
	if err != nil {
		return err
	}
	text := reliability.Section(machine, plan, results)
	fmt.Println("\n" + text)
	if pattern != "" {
		return nil
	}
	return write(text + "\n" + reliability.Catalogue(faults))
}

func selected(pattern string) ([]reliability.Fault, error) {
	matches, err := regexp.Compile(pattern)
	if err != nil {
		return nil, fmt.Errorf("-fault %q: %w", pattern, err)
	}
	var faults []reliability.Fault
	for _, fault := range reliability.Faults() {
		if matches.MatchString(fault.Name) {
			faults = append(faults, fault)
		}
	}
	if len(faults) == 0 {
		return nil, fmt.Errorf("-fault %q matches no fault", pattern)
	}
	return faults, nil
}

// thisMachine describes what the numbers depend on. It contains no host names.
func thisMachine(ctx context.Context) (m reliability.Machine, err error) {
	r, err := fixture.StartRedis(ctx)
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, r.Stop()) }()
	reply, err := r.Do(ctx, "INFO", "server")
	_, version, _ := strings.Cut(fmt.Sprint(reply), "redis_version:")
	version, _, _ = strings.Cut(version, "\r\n")
	return reliability.Machine{Cores: runtime.NumCPU(), System: runtime.GOOS + "/" + runtime.GOARCH, Redis: version, Go: runtime.Version()}, err
}

func write(text string) error {
	root, err := fixture.ModuleRoot()
	if err != nil {
		return err
	}
	path := filepath.Join(root, page)
	before, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	after, err := reliability.Splice(before, text)
	if err != nil {
		return fmt.Errorf("write %s: %w", page, err)
	}
	return os.WriteFile(path, after, 0o644) //nolint:gosec // a page of this very module
}
