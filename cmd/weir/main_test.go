package main

import (
	"testing"

	"github.com/weir-dev/weir/test/fixture"
)

func TestMain(m *testing.M) { fixture.Main(m) }
