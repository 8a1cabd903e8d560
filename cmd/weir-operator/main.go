// Command weir-operator is the operator of Weir: it runs the Limiters of a cluster, and compiles, publishes and reports their policies.
package main

import (
	"os"

	"github.com/weir-dev/weir/cmd/internal/cli"
	_ "github.com/weir-dev/weir/limiter/rules/expr/celexpr" // policies have expressions
)

func main() {
	os.Exit(cli.Run(rootCommand(), os.Args[1:], os.Stdout, os.Stderr))
}
