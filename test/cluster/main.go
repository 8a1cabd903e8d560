// Command cluster tells the story of Weir on a real cluster, and fails when it does not come true: installed by manifest and
// by chart, under load while pods, Redis and certificates go away, mended after mistakes, upgraded, and uninstalled with
// nothing left behind. A chapter is a file; make e2e runs all of them.
//
//	go run ./test/cluster -image weir:e2e -next weir:e2e-next -load weir-load:e2e
//
// It wants a cluster without Weir, which KUBECONFIG names, whose nodes have the images, and leaves it as it was.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"syscall"
	"time"
)

// plan is what to tell, and with what.
type plan struct {
	image, next  string // of Weir: to install, and to upgrade to
	load, redis  string // images
	chapters     string // regular expression
	rate         int    // requests per second
	keep, resume bool
	artifacts    string
}

func main() {
	var p plan
	flag.StringVar(&p.image, "image", "weir:e2e", "image of Weir that is installed")
	flag.StringVar(&p.next, "next", "weir:e2e-next", "image of Weir that is upgraded to; its content may be the same")
	flag.StringVar(&p.load, "load", "weir-load:e2e", "image of test/cluster/load")
	flag.StringVar(&p.redis, "redis", "redis:7", "image of Redis")
	flag.StringVar(&p.chapters, "chapters", "", "regular expression of the chapters to tell (default: all)")
	flag.IntVar(&p.rate, "rate", 1000, "requests per second of the load")
	flag.BoolVar(&p.keep, "keep", os.Getenv("KEEP") != "", "leave everything in the cluster as it is at the end; also KEEP=1")
	flag.BoolVar(&p.resume, "resume", false, "go on with what -keep has left, for -chapters that need those before")
	flag.StringVar(&p.artifacts, "artifacts", "dist/e2e", "directory for what explains a failure")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, p)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e: FAILED:", err)
		os.Exit(1)
	}
}

// chapter is a part of the story. Its error ends the story; what else falls short is told and the story goes on.
type chapter struct {
	name string
	tell func(context.Context, *story) error
}

// chapters are in order: most need what those before have left.
func chapters() []chapter {
	return []chapter{
		{"installed by manifest", installByManifest},
		{"a Limiter and its policies", enforce},
		{"pods come and go under load", disturbUnderLoad},
		{"Redis goes away under load", loseRedis},
		{"mistakes are named, and go when they are mended", makeMistakes},
		{"certificates are renewed", renewCertificates},
		{"definitions are upgraded", upgradeDefinitions},
		{"the Kubernetes API is throttled", throttleKubernetes},
		{"Limiters go", deleteLimiters},
		{"uninstalled", uninstall},
		{"the chart", chart},
	}
}

func run(ctx context.Context, p plan) (err error) {
	chosen, err := regexp.Compile(p.chapters)
	if err != nil {
		return fmt.Errorf("-chapters %q: %w", p.chapters, err)
	}
	s, err := newStory(p, os.Stdout)
	if err != nil {
		return err
	}
	if !p.resume {
		if err := s.checkEmpty(ctx); err != nil {
			return err
		}
	}
	defer func() {
		if p.keep {
			return
		}
		// Also after an interrupt.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTime)
		defer cancel()
		err = errors.Join(err, s.cleanUp(ctx))
	}()
	began := time.Now()
	for i, c := range chapters() {
		if !chosen.MatchString(c.name) {
			continue
		}
		if err := s.chapter(ctx, i+1, c); err != nil {
			return err
		}
	}
	s.printf("\nAfter %v: %d chapters fell short\n", time.Since(began).Round(time.Second), s.short)
	if s.short > 0 {
		return fmt.Errorf("%d chapters fell short", s.short)
	}
	return nil
}

// chapter tells one, and keeps what explains it if it fails or falls short.
func (s *story) chapter(ctx context.Context, number int, c chapter) error {
	s.printf("\n%d. %s\n", number, c.name)
	s.shortfalls = 0
	began := time.Now()
	err := c.tell(ctx, s)
	s.printf("   (%v)\n", time.Since(began).Round(100*time.Millisecond))
	if err == nil && s.shortfalls == 0 {
		return nil
	}
	s.short++
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), diagnosticsTime)
	defer cancel()
	s.diagnose(ctx, fmt.Sprintf("%s/%02d", s.plan.artifacts, number))
	if err != nil {
		return fmt.Errorf("%d. %s: %w", number, c.name, err)
	}
	return nil
}
