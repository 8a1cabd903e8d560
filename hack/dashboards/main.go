// Command dashboards writes the Grafana dashboards of Weir to config/grafana: one file of JSON for each dashboard. Run it with make generate.
// test/dashboards runs every query in a Prometheus.
package main

import (
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	for _, d := range all() {
		path := filepath.Join("config", "grafana", d.UID+".json")
		if err := os.WriteFile(path, d.json(), 0o644); err != nil {
			fmt.Fprintln(os.Stderr, "dashboards: run it in the root of the repository:", err)
			os.Exit(1)
		}
	}
}

// all returns the dashboards in the order of the documentation.
func all() []dashboard {
	return []dashboard{overview(), onePolicy(), redis(), kubernetes()}
}
