package accesslog_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weir-dev/weir/internal/accesslog"
	"github.com/weir-dev/weir/internal/accesslog/format"
)

// logOf returns n lines like those of an example log, with increasing times.
func logOf(tb testing.TB, name string, n int) []byte {
	tb.Helper()
	content, err := os.ReadFile(filepath.Join("format", "testdata", name+".log"))
	if err != nil {
		tb.Fatal(err)
	}
	line, _, _ := strings.Cut(string(content), "\n")
	if name == "audit" {
		line = strings.Split(string(content), "\n")[1]
	}
	var b bytes.Buffer
	for i := range n {
		at := noon.Add(time.Duration(i) * time.Millisecond)
		b.WriteString(strings.NewReplacer(
			"14/Mar/2026:08:59:58 +0100", at.Format("02/Jan/2006:15:04:05 -0700"), "14/Mar/2026:08:00:05 +0000", at.Format("02/Jan/2006:15:04:05 -0700"),
			"14/Mar/2026:08:00:05.655", at.Format("02/Jan/2006:15:04:05.000"), "2026-03-14T08:00:05", at.Format("2006-01-02T15:04:05"),
			"2026-03-14T09:00:05+01:00", at.Format(time.RFC3339), "203.0.113.7", fmt.Sprintf("203.0.%d.%d", i/256%256, i%256),
		).Replace(line))
		b.WriteByte('\n')
	}
	return b.Bytes()
}

// BenchmarkReader reads logs of each format with all processors. address reads what policies need that read neither the query nor headers, and tenant
// also a header.
func BenchmarkReader(b *testing.B) {
	for _, f := range format.Formats() {
		for needs, headers := range map[string][]string{"all": nil, "address": {}, "tenant": {"x-tenant-id"}} {
			o := accesslog.Options{}
			o.Settings.SkipQuery, o.Settings.SkipObjects, o.Settings.Headers = headers != nil, headers != nil, headers
			b.Run(f.Name+"/"+needs, func(b *testing.B) {
				const n = 200_000
				path := write(b, "a.log", logOf(b, f.Name, n))
				b.ReportAllocs()
				records := 0
				began := time.Now()
				for b.Loop() {
					r := open(b, o, path)
					for {
						batch, err := r.Next(b.Context())
						if errors.Is(err, io.EOF) {
							break
						}
						if err != nil {
							b.Fatal(err)
						}
						records += len(batch)
					}
					r.Close()
				}
				b.ReportMetric(float64(records)/time.Since(began).Seconds(), "lines/s")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}
