// Package redisreport prints what weir finds out about a Redis.
package redisreport

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/weir-dev/weir/cmd/internal/cli"
	"github.com/weir-dev/weir/internal/terminal"
	"github.com/weir-dev/weir/limiter/admin/adminapi"
)

// The output formats.
const (
	Table = "table"
	JSON  = "json"
)

// Validate returns an error for an output format that does not exist.
func Validate(output string) error {
	if output != Table && output != JSON {
		return fmt.Errorf("--output %q is invalid: must be one of table, json", output)
	}
	return nil
}

// Print writes the report of a replica, which is "" for this process. Text from Redis is printed so that it cannot control the terminal.
func Print(w io.Writer, output, replica string, r *adminapi.RedisReport) error {
	if output == JSON {
		encoder := json.NewEncoder(w)
		encoder.SetIndent("", "  ")
		return encoder.Encode(struct {
			Replica string `json:"replica,omitempty"`
			*adminapi.RedisReport
		}{replica, r})
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	var errs []error
	if replica != "" {
		errs = append(errs, row(table, "replica", "%s", replica))
	}
	errs = append(errs, printServer(table, r))
	for _, p := range r.Policies {
		fits := "maxmemory is not set"
		if p.Identifiers > 0 {
			fits = fmt.Sprintf("%d fit into the free memory, without other policies", p.Identifiers)
		}
		errs = append(errs, row(table, "policy", "%s: %d bytes for each identifier, %s", p.Policy, p.Bytes, fits))
	}
	for _, f := range r.Findings {
		errs = append(errs, row(table, f.Severity, "%s", f.Text))
	}
	result := "Weir can use this Redis"
	if !r.Usable {
		result = "Weir cannot use this Redis as it is"
	}
	return errors.Join(append(errs, row(table, "result", "%s", result), table.Flush())...)
}

func printServer(w io.Writer, r *adminapi.RedisReport) error {
	s := r.Server
	if s == nil {
		return nil
	}
	protocol, memory := "RESP2", "maxmemory is not set"
	if s.RESP3 {
		protocol = "RESP2 and RESP3"
	}
	if s.MaxMemory > 0 {
		memory = fmt.Sprintf("%.1f of %.1f MiB used on the fullest primary", mebibytes(s.UsedMemory), mebibytes(s.MaxMemory))
	}
	errs := []error{row(w, "server", "%s", s.Description)}
	if s.Corrected {
		errs = append(errs, row(w, "mode", "the URL names one server, which is a node of this cluster: Weir uses the cluster"))
	}
	errs = append(errs,
		row(w, "primaries", "%d, with %s", s.Primaries, cli.Count(s.Replicas, "replica", "replicas")),
		row(w, "protocol", "%s", protocol),
		row(w, "memory", "%s, maxmemory-policy %s", memory, cmp.Or(s.Eviction, "unknown")),
		row(w, "persistence", "%s", cmp.Or(s.Persistence, "unknown")),
	)
	if s.Databases > 0 {
		errs = append(errs, row(w, "databases", "%d", s.Databases))
	}
	for _, p := range r.Primaries {
		errs = append(errs, row(w, "round trip", "%s: p50 %.2f ms, p90 %.2f ms, p99 %.2f ms, max %.2f ms in %d calls; clock ahead by %.3f s",
			p.Address, 1000*p.P50, 1000*p.P90, 1000*p.P99, 1000*p.Max, p.Samples, p.ClockAhead))
	}
	return errors.Join(errs...)
}

func mebibytes(bytes int64) float64 { return float64(bytes) / (1 << 20) }

func row(w io.Writer, name, format string, arguments ...any) error {
	_, err := terminal.Printf(w, "%s\t%s\n", name, fmt.Sprintf(format, arguments...))
	return err
}
