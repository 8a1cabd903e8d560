// Command reliability breaks Redis in every way that package test/reliability knows, under load and with three limiter
// processes, and writes what clients noticed into docs/reference/outages.md.
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
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"

	"github.com/weir-dev/weir/test/fixture"
	"github.com/weir-dev/weir/test/reliability"
)

// page is what is written into, below the root of the module.
const page = "docs/reference/outages.md"

func main() {
	fault := flag.String("fault", "", "regular expression of the faults to play; the page is written only when all are")
	plan := reliability.Long()
	flag.IntVar(&plan.Rate, "rate", plan.Rate, "requests per second")
	flag.DurationVar(&plan.Hold, "hold", plan.Hold, "how long a fault lasts")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, *fault, plan)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "reliability:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, pattern string, plan reliability.Plan) (err error) {
	faults, err := chosen(pattern)
	if err != nil {
		return err
	}
	if plan.Rate < 1 || plan.Hold <= 0 {
		return errors.New("-rate and -hold take positive values")
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
		for _, shortfall := range result.Shortfalls(fault.Want) {
			fmt.Println("  SHORT:", shortfall)
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

func chosen(pattern string) ([]reliability.Fault, error) {
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

// thisMachine tells what numbers depend on, and no names.
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
