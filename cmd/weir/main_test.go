package main

import (
	"testing"

	"github.com/weir-dev/weir/test/fixture/kubetest"
)

func TestMain(m *testing.M) { kubetest.Main(m) }
