package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/test/fixture"
	"github.com/weir-dev/weir/test/kubernetes"
)

const (
	scrapeInterval = 5 * time.Second
	// maxIdentifiers bounds the counters of a policy, so that the address scan of the load exceeds it.
	maxIdentifiers = 1500
)

// tools are programs of this machine.
type tools struct {
	grafana            []string // the command that starts Grafana
	home               string   // of Grafana
	chromium, pngquant string
}

func findTools(ctx context.Context, home string) (t tools, err error) {
	if home == "" {
		return t, errors.New("-grafana is required: the home directory of Grafana, for example /usr/share/grafana")
	}
	if t.home, err = filepath.Abs(home); err != nil {
		return t, err
	}
	if t.grafana, err = grafanaCommand(t.home); err != nil {
		return t, err
	}
	if t.chromium, err = fixture.Program(ctx, "chromium", "chromium", "fonts-dejavu-core"); err != nil {
		return t, err
	}
	t.pngquant, err = fixture.Program(ctx, "pngquant", "pngquant")
	return t, err
}

// rig is everything that the pictures show.
type rig struct {
	tools      tools
	world      *kubernetes.World
	prometheus *kubernetes.Prometheus
	grafana    *grafana
	dir        string // of temporary files
}

func startRig(ctx context.Context, t tools) (*rig, error) {
	r := &rig{tools: t}
	if err := r.start(ctx); err != nil {
		return nil, errors.Join(err, r.stop())
	}
	return r, nil
}

func (r *rig) start(ctx context.Context) (err error) {
	if r.dir, err = os.MkdirTemp("", "weir-screenshots-"); err != nil {
		return err
	}
	if r.world, err = kubernetes.Start(ctx, os.Stderr); err != nil {
		return err
	}
	err = r.world.EditLimiter(ctx, func(l *v1alpha1.LimiterSpec) { l.Identifiers.Max = new(int64(maxIdentifiers)) })
	if err != nil {
		return err
	}
	if r.prometheus, err = r.world.StartPrometheus(ctx, scrapeInterval); err != nil {
		return err
	}
	if err := apply(ctx, r.world, policies); err != nil {
		return err
	}
	r.grafana, err = startGrafana(ctx, r.tools, filepath.Join(r.dir, "grafana"), r.prometheus.URL)
	return err
}

func (r *rig) stop() error {
	var errs []error
	if r.grafana != nil {
		errs = append(errs, r.grafana.stop())
	}
	if r.prometheus != nil {
		errs = append(errs, r.prometheus.Stop())
	}
	if r.world != nil {
		errs = append(errs, r.world.Stop())
	}
	return errors.Join(append(errs, os.RemoveAll(r.dir))...)
}

// apply creates or changes the objects of a YAML text.
func apply(ctx context.Context, w *kubernetes.World, text string) error {
	file, err := os.CreateTemp("", "weir-*.yaml")
	if err != nil {
		return err
	}
	if _, err = file.WriteString(text); err == nil {
		_, err = w.Kube.Kubectl(ctx, "apply", "--server-side", "--force-conflicts", "-f", file.Name())
	}
	return errors.Join(err, file.Close(), os.Remove(file.Name()))
}

// progress prints what happens, and when.
func progress(start time.Time, what string) {
	fmt.Printf("%5.1f min: %s\n", time.Since(start).Minutes(), what)
}
