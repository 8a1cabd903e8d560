package main

import (
	"testing"

	"github.com/weir-dev/weir/cmd/internal/cli/clitest"
)

func TestReference_DescribesEachCommand(t *testing.T) {
	t.Setenv("POD_NAMESPACE", "") // the default of --namespace
	clitest.ExpectReference(t, rootCommand(), "weir-operator.md", "Flags of weir-operator", "cmd/weir-operator")
}
