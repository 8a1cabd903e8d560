package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"log/slog"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/weir-dev/weir/cmd/internal/cli/clitest"
	"github.com/weir-dev/weir/cmd/weir/flags"
	"github.com/weir-dev/weir/cmd/weir/monitor"
	"github.com/weir-dev/weir/controllers/ruleset"
	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/bound"
	"github.com/weir-dev/weir/limiter/engine"
	"github.com/weir-dev/weir/limiter/memstore"
	"github.com/weir-dev/weir/limiter/server"
	"github.com/weir-dev/weir/limiter/store"
	"github.com/weir-dev/weir/limiter/tracing/otlp"
	"github.com/weir-dev/weir/limiter/xds"
)

func TestReference_DescribesEachCommand(t *testing.T) {
	clitest.ExpectReference(t, rootCommand(), "commands.md", "Commands of weir", "cmd/weir")
}

func TestReference_DescribesEachMetric(t *testing.T) {
	limiter, operator := limiterMetrics(t), operatorMetrics(t)
	var page bytes.Buffer
	page.WriteString(clitest.Generated("the metrics that the code registers"))
	page.WriteString("# Metrics\n\nA limiter serves its metrics at `/metrics` on `--ops-listen`, the operator on `--metrics-bind-address`.\n" +
		"Both also expose the standard `go_*` and `process_*` metrics. The operator, and the policy webhook in it, expose the `controller_runtime_*`,\n" +
		"`workqueue_*` and `rest_client_*` metrics of controller-runtime.\n\n## Limiter\n\n")
	writeMetrics(&page, limiter)
	page.WriteString("\n## Operator\n\n")
	writeMetrics(&page, operator)
	clitest.ExpectPage(t, "metrics.md", page.Bytes())

	documented := map[string]bool{}
	for _, m := range slices.Concat(limiter, operator) {
		documented[m.name] = true
	}
	inCode := metricNames(t)
	if len(inCode) == 0 {
		t.Fatal("no names of metrics in the code")
	}
	for name, file := range inCode {
		if !documented[name] {
			t.Errorf("%s: metric %s is not in docs/reference/metrics.md: register its collector in this test", file, name)
		}
	}
}

// metric is one metric of a process.
type metric struct{ name, kind, labels, help string }

func writeMetrics(page *bytes.Buffer, list []metric) {
	slices.SortFunc(list, func(a, b metric) int { return strings.Compare(a.name, b.name) })
	page.WriteString("| Metric | Type | Labels | Description |\n|---|---|---|---|\n")
	for _, m := range list {
		fmt.Fprintf(page, "| `%s` | %s | %s | %s |\n", m.name, m.kind, clitest.Code(m.labels), clitest.Cell(m.help))
	}
}

// limiterMetrics returns the metrics of a limiter with counters in Redis. It does not connect to Redis.
func limiterMetrics(t *testing.T) []metric {
	t.Helper()
	t.Setenv("GOMEMLIMIT", "off") // keeps the memory limit of the test
	client, err := flags.OpenRedis("redis://127.0.0.1:1", flags.RedisTLS{}, time.Second, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	counts, err := redisCounters(client, countersOf("weir:"), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = counts.close() }()
	registry := &recorder{Registry: prometheus.NewRegistry()}
	engine.NewMetrics(registry)
	store.New(counts.store, counts.layers, registry)
	countIdentifier(t, counts.layers.Bound)
	inMemory, err := memoryCounters(countersOf("weir:"))
	if err != nil {
		t.Fatal(err)
	}
	registry.MustRegister(slices.Concat(counts.metrics, inMemory.metrics)...)
	server.NewMetrics(registry)
	monitor.NewInspector(client, registry, slog.New(slog.DiscardHandler))
	monitor.NewSnapshotLag("", nil, registry)
	monitor.RegisterRejected(registry, func() error { return nil })
	xds.NewMetrics(registry)
	newServiceStats(registry, 0.8)
	newBypasses(registry)
	otlp.NewMetrics(registry)
	if _, err := (&flags.DecisionLog{}).Open(nil, registry); err != nil {
		t.Fatal(err)
	}
	return registry.describe(t)
}

// countIdentifier makes identifiers have a policy with a counter, and so a value.
func countIdentifier(t *testing.T, identifiers *bound.Counters) {
	t.Helper()
	limit, err := limiter.NewLimit(limiter.FixedWindow, 1, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	rule := &limiter.CountedRule{Policy: "shop/a", Keys: limiter.NewKeySpace("weir:", "Tenant", "shop/a", limit)}
	layer := identifiers.Above(memstore.New(time.Now), nil)
	if _, err := layer.Spend(t.Context(), []limiter.Charge{{Key: "a", Limit: limit, Cost: 1, Rule: rule}}); err != nil {
		t.Fatal(err)
	}
}

func operatorMetrics(t *testing.T) []metric {
	t.Helper()
	registry := &recorder{Registry: prometheus.NewRegistry()}
	if _, err := ruleset.New(ruleset.Config{Metrics: registry, Clock: time.Now}); err != nil {
		t.Fatal(err)
	}
	return registry.describe(t)
}

// recorder is a registry that keeps its collectors.
type recorder struct {
	*prometheus.Registry

	collectors []prometheus.Collector
}

func (r *recorder) Register(c prometheus.Collector) error {
	r.collectors = append(r.collectors, c)
	return r.Registry.Register(c)
}

func (r *recorder) MustRegister(list ...prometheus.Collector) {
	r.collectors = append(r.collectors, list...)
	r.Registry.MustRegister(list...)
}

func (r *recorder) describe(t *testing.T) []metric {
	t.Helper()
	var list []metric
	for _, c := range r.collectors {
		kinds := kindsOf(t, c)
		for _, d := range drain(func(to chan<- *prometheus.Desc) { c.Describe(to) }) {
			m := parseDesc(t, d)
			switch kind, collected := kinds[d.String()]; {
			case collected:
				m.kind = kind
			case kindOfVec(c) != "":
				m.kind = kindOfVec(c)
			case strings.HasSuffix(m.name, "_total"):
				m.kind = "counter"
			default:
				t.Errorf("%s: the type is unknown, because the collector has no value yet", m.name)
			}
			list = append(list, m)
		}
	}
	return list
}

// kindsOf returns the types of the metrics that c collects, by description.
func kindsOf(t *testing.T, c prometheus.Collector) map[string]string {
	t.Helper()
	kinds := map[string]string{}
	for _, m := range drain(func(to chan<- prometheus.Metric) { c.Collect(to) }) {
		var out dto.Metric
		if err := m.Write(&out); err != nil {
			t.Fatal(err)
		}
		switch {
		case out.GetCounter() != nil:
			kinds[m.Desc().String()] = "counter"
		case out.GetGauge() != nil:
			kinds[m.Desc().String()] = "gauge"
		case out.GetHistogram() != nil:
			kinds[m.Desc().String()] = "histogram"
		}
	}
	return kinds
}

// kindOfVec returns the type of a vector, which may have no value yet, and "" for other collectors.
func kindOfVec(c prometheus.Collector) string {
	switch c.(type) {
	case *prometheus.CounterVec:
		return "counter"
	case *prometheus.GaugeVec:
		return "gauge"
	case *prometheus.HistogramVec:
		return "histogram"
	default:
		return ""
	}
}

// drain returns everything that send sends.
func drain[T any](send func(chan<- T)) (list []T) {
	c := make(chan T)
	go func() {
		defer close(c)
		send(c)
	}()
	for v := range c {
		list = append(list, v)
	}
	return list
}

var descPattern = regexp.MustCompile(`^Desc\{fqName: "([^"]*)", help: ("(?:[^"\\]|\\.)*"), unit: "[^"]*", constLabels: \{\}, variableLabels: \{([^}]*)\}\}$`)

// parseDesc reads a description, which exposes its fields only as text.
func parseDesc(t *testing.T, d *prometheus.Desc) metric {
	t.Helper()
	match := descPattern.FindStringSubmatch(d.String())
	if match == nil {
		t.Fatalf("cannot parse %s", d)
	}
	help, err := strconv.Unquote(match[2])
	if err != nil {
		t.Fatalf("cannot parse %s: %v", d, err)
	}
	return metric{name: match[1], labels: strings.ReplaceAll(match[3], ",", ", "), help: help}
}

// metricNames returns the names of metrics in string literals of the code that ships, each with a file.
func metricNames(t *testing.T) map[string]string {
	t.Helper()
	name := regexp.MustCompile(`^weir_[a-z_]+$`)
	names := map[string]string{}
	root := filepath.Join("..", "..")
	for _, dir := range []string{"api", "cmd", "controllers", "internal", "go", "limiter", "webhook"} {
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			ast.Inspect(file, func(n ast.Node) bool {
				if literal, is := n.(*ast.BasicLit); is && literal.Kind == token.STRING {
					if text, err := strconv.Unquote(literal.Value); err == nil && name.MatchString(text) {
						names[text] = path
					}
				}
				return true
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return names
}
