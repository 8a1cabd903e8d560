// Command weir enforces rate limits: it is the limiter, with policies from an operator in a cluster or from files, and the tools that need no
// cluster. It has no Kubernetes client; weir-operator and kubectl-weir have one.
package main

import (
	"io"
	"os"

	"github.com/weir-dev/weir/cmd/internal/cli"
	_ "github.com/weir-dev/weir/limiter/rules/expr/celexpr" // policies have expressions
)

func main() {
	os.Exit(run(arguments(os.Args), os.Stdout, os.Stderr))
}

// run executes a command of weir and returns its exit status.
func run(args []string, stdout, stderr io.Writer) int {
	return cli.Run(rootCommand(), args, stdout, stderr)
}
