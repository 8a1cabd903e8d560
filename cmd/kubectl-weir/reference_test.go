package main

import (
	"testing"

	"github.com/weir-dev/weir/cmd/internal/cli/clitest"
)

func TestReference_DescribesEachCommand(t *testing.T) {
	clitest.ExpectReference(t, rootCommand(), "kubectl-weir.md", "Commands of kubectl weir", "cmd/kubectl-weir")
}
