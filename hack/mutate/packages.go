package main

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"path"
	"slices"
	"strconv"
	"strings"
)

// defaultPackages are the packages that decide, compile policies, publish rules and validate.
func defaultPackages() []string {
	return []string{"./limiter/...", "./internal/compile/...", "./controllers/ruleset/...", "./webhook/..."}
}

// isTestCode reports whether a package has only code for tests: its mutants would be mutants of tests.
func isTestCode(folder string) bool { return folder == "limiter/storetest" }

// groupOf returns the folder whose packages are tested together: the tests of one of them also execute others.
func groupOf(folder string) string {
	for _, group := range []string{"controllers/ruleset", "internal/compile", "limiter/rules"} {
		if folder == group || strings.HasPrefix(folder, group+"/") {
			return group
		}
	}
	return ""
}

// testFolders returns the packages whose tests run on the mutants of folder: with own, only the package itself.
func testFolders(folder string, own bool) []string {
	if own {
		return []string{folder}
	}
	switch folder {
	case "limiter/local", "limiter/failover":
		return []string{folder, "limiter/engine"} // outages of Redis, and limits on the sum over replicas
	case "internal/importer":
		return []string{folder, "internal/importer/objects", "internal/importer/envoyratelimit"} // the formats that it reads
	case "limiter/redisstore/lua", "limiter/redisstore/bypasses":
		return []string{folder, "limiter/redisstore"} // runs the scripts
	case "limiter/server/envoy/wire":
		return []string{folder, "limiter/server/envoy"} // decides what it reads
	case "limiter/socket":
		return []string{folder, "limiter/server"} // servers that stop
	}
	switch group := groupOf(folder); {
	case group == "limiter/rules" && folder != "limiter/rules/matching":
		return []string{folder, "limiter/rules/matching"} // which matches requests with all of them
	case group != "" && group != folder:
		return []string{folder, group}
	}
	return []string{folder}
}

// listPackages returns the folders of the packages that match the patterns, relative to the root of the module.
func listPackages(ctx context.Context, root string, patterns []string) ([]string, error) {
	command := exec.CommandContext(ctx, "go", append([]string{"list", "-f", "{{.Module.Path}} {{.ImportPath}}"}, patterns...)...)
	command.Dir = root
	var stderr bytes.Buffer
	command.Stderr = &stderr
	output, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("list the packages %s: %w\n%s", strings.Join(patterns, " "), err, stderr.Bytes())
	}
	var folders []string
	for line := range strings.Lines(string(output)) {
		module, name, _ := strings.Cut(strings.TrimSpace(line), " ")
		if folder := strings.TrimPrefix(strings.TrimPrefix(name, module), "/"); folder != "" && !isTestCode(folder) {
			folders = append(folders, folder)
		}
	}
	return folders, nil
}

// changes are the changed lines of files.
type changes map[string][][2]int // file -> first and last line

func (c changes) contain(m *Mutant) bool {
	return slices.ContainsFunc(c[m.File], func(lines [2]int) bool { return lines[0] <= m.Line && m.Line <= lines[1] })
}

// packages returns those of folders in which code changed.
func (c changes) packages(folders []string) []string {
	var changed []string
	for _, folder := range folders {
		for file := range c {
			isCode := strings.HasSuffix(file, ".lua") || strings.HasSuffix(file, ".go") && !strings.HasSuffix(file, "_test.go")
			if isCode && path.Dir(file) == folder {
				changed = append(changed, folder)
				break
			}
		}
	}
	return changed
}

// changedSince returns the lines that differ between the working tree and the last commit that it shares with ref.
func changedSince(ctx context.Context, root, ref string) (changes, error) {
	command := exec.CommandContext(ctx, "git", "diff", "--no-color", "--no-ext-diff", "--unified=0", "--no-prefix", "--merge-base", ref, "--", "*.go", "*.lua")
	command.Dir = root
	var stderr bytes.Buffer
	command.Stderr = &stderr
	output, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("find the lines that changed since %s: %w\n%s", ref, err, stderr.Bytes())
	}
	return parseDiff(string(output))
}

// parseDiff reads the output of git diff --unified=0 --no-prefix.
func parseDiff(diff string) (changes, error) {
	found := changes{}
	file := ""
	for line := range strings.Lines(diff) {
		line = strings.TrimRight(line, "\n")
		if name, ok := strings.CutPrefix(line, "+++ "); ok {
			file = strings.TrimSuffix(name, "\t")
			continue
		}
		if !strings.HasPrefix(line, "@@ ") {
			continue
		}
		fields := strings.Fields(line) // @@ -1,2 +3,4 @@
		if len(fields) < 3 {
			return nil, fmt.Errorf("git diff printed the line %q", line)
		}
		start, count, many := strings.Cut(strings.TrimPrefix(fields[2], "+"), ",")
		first, err := strconv.Atoi(start)
		if err != nil {
			return nil, fmt.Errorf("git diff printed the line %q", line)
		}
		n := 1
		if many {
			if n, err = strconv.Atoi(count); err != nil {
				return nil, fmt.Errorf("git diff printed the line %q", line)
			}
		}
		if n > 0 {
			found[file] = append(found[file], [2]int{first, first + n - 1})
		}
	}
	return found, nil
}
