package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-dev/weir/test/cluster/journal"
)

// limiterURL is what callers in the cluster ask.
const limiterURL = "http://weir-limiter-default." + system + ":8080"

// The policies of the load.
const (
	steadyPolicy = "steady" // never denies
	editedPolicy = "edited" // never denies, and is edited
	hotPolicy    = "hot"    // denies nearly always
	plenty       = 1_000_000
	hotLimit     = 100 // an hour, exactly counted
)

// loadPod is a generator that runs until it is deleted, or has sent what it should.
type loadPod struct {
	name types.NamespacedName
	from time.Time
}

// startLoad makes the policies of the load, if they are not there, and the load.
func (s *story) startLoad(ctx context.Context) (loadPod, error) {
	hot := policy(traffic, hotPolicy, hotLimit, "1h")
	hot.Spec.Algorithm = "SlidingWindowLog"
	policies := []client.Object{policy(traffic, steadyPolicy, plenty, "1m"), policy(traffic, editedPolicy, plenty, "1m"), hot}
	if err := s.create(ctx, append([]client.Object{namespace(traffic)}, policies...)...); err != nil {
		return loadPod{}, err
	}
	for _, p := range policies {
		if _, err := await(ctx, 30*time.Second, s.says(p, ready("Programmed"))); err != nil {
			return loadPod{}, err
		}
	}
	return s.resumeLoad(ctx)
}

// resumeLoad asks for policies that are there.
func (s *story) resumeLoad(ctx context.Context) (loadPod, error) {
	load, err := s.ask(ctx, "load", "-domain", traffic, "-rate", strconv.Itoa(s.plan.rate),
		"-ask", "6 /"+steadyPolicy+" 400", "-ask", "3 /"+editedPolicy+" 1", "-ask", "1 /"+hotPolicy+" 1")
	if err != nil {
		return load, err
	}
	_, err = await(ctx, 30*time.Second, func(ctx context.Context) error {
		j, err := s.journalOf(ctx, load)
		if err == nil && j.All().Answered() < s.plan.rate {
			err = fmt.Errorf("the load has got %v", j.All())
		}
		return err
	})
	load.from = time.Now()
	return load, err
}

// stopLoad ends a load and says what came of it from the first answer to the last. No request may have failed since it was
// going: before, a Service that has just got its first pods may not be known to the node.
func (s *story) stopLoad(ctx context.Context, load loadPod) error {
	if err := s.journalUntil(ctx, load, time.Now()); err != nil {
		return err
	}
	j, err := s.journalOf(ctx, load)
	if err != nil {
		return err
	}
	s.say("the load, from its start to its end: %v", j.All())
	going := j.Between(load.from, j.End())
	s.expect(going.Failed() == 0, "of a load that was going %d requests failed: %v", going.Failed(), going.Failures)
	if err := s.keepJournal(j); err != nil {
		return err
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: load.name.Namespace, Name: load.name.Name}}
	if err := s.Delete(ctx, pod); err != nil {
		return err
	}
	_, err = await(ctx, 60*time.Second, s.gone(pod))
	return err
}

// keepJournal keeps all seconds of a load for whoever wants to know more.
func (s *story) keepJournal(j journal.Journal) error {
	s.loads++
	file := filepath.Join(s.plan.artifacts, fmt.Sprintf("load-%d.jsonl", s.loads))
	var text bytes.Buffer
	if err := errors.Join(j.Write(&text), os.MkdirAll(s.plan.artifacts, 0o755)); err != nil {
		return fmt.Errorf("keep the journal of a load: %w", err)
	}
	if err := os.WriteFile(file, text.Bytes(), 0o644); err != nil {
		return fmt.Errorf("keep the journal of a load: %w", err)
	}
	return nil
}

// ask starts a pod of the load generator.
func (s *story) ask(ctx context.Context, name string, args ...string) (loadPod, error) {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: traffic, Name: name, Labels: mine()},
		Spec: corev1.PodSpec{
			RestartPolicy:                corev1.RestartPolicyNever,
			AutomountServiceAccountToken: new(false),
			EnableServiceLinks:           new(false),
			Containers: []corev1.Container{{
				Name: "load", Image: s.plan.load, ImagePullPolicy: corev1.PullIfNotPresent,
				Args:      append([]string{"-url", limiterURL}, args...),
				Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("10m")}},
			}},
		},
	}
	err := s.create(ctx, pod)
	return loadPod{name: client.ObjectKeyFromObject(pod)}, err
}

// journalOf is what the load has written so far.
func (s *story) journalOf(ctx context.Context, load loadPod) (journal.Journal, error) {
	log, err := s.sets.CoreV1().Pods(load.name.Namespace).GetLogs(load.name.Name, &corev1.PodLogOptions{}).Stream(ctx)
	if err != nil {
		return nil, err
	}
	j, err := journal.Read(log)
	return j, errors.Join(err, log.Close())
}

// journalUntil waits until the load has told of the time.
func (s *story) journalUntil(ctx context.Context, load loadPod, until time.Time) error {
	_, err := await(ctx, 20*time.Second, func(ctx context.Context) error {
		j, err := s.journalOf(ctx, load)
		if err == nil && j.End().Before(until) {
			err = fmt.Errorf("the load tells until %v only, want %v", j.End(), until)
		}
		return err
	})
	return err
}

// meanwhile is what the load saw while something was done, and until late answers to that are there. No request may fail.
func (s *story) meanwhile(ctx context.Context, load loadPod, what string, do step) (journal.Second, error) {
	from := time.Now()
	if err := do(ctx); err != nil {
		return journal.Second{}, fmt.Errorf("%s: %w", what, err)
	}
	took := time.Since(from)
	if err := s.journalUntil(ctx, load, time.Now().Add(time.Second)); err != nil {
		return journal.Second{}, err
	}
	j, err := s.journalOf(ctx, load)
	if err != nil {
		return journal.Second{}, err
	}
	seen := j.Between(from, time.Now())
	s.say("%s, in %v: %v", what, took.Round(100*time.Millisecond), seen)
	s.expect(seen.Failed() == 0, "%s: %d requests failed: %v", what, seen.Failed(), seen.Failures)
	s.expect(seen.Answered() > 0, "%s: nobody was answered", what)
	return seen, nil
}

// finished waits until a pod has sent all that it should, and returns what it saw.
func (s *story) finished(ctx context.Context, load loadPod) (journal.Second, error) {
	_, err := await(ctx, 60*time.Second, func(ctx context.Context) error {
		var pod corev1.Pod
		if err := s.Get(ctx, load.name, &pod); err != nil {
			return err
		}
		if pod.Status.Phase != corev1.PodSucceeded {
			return fmt.Errorf("pod %s is %s", load.name, pod.Status.Phase)
		}
		return nil
	})
	if err != nil {
		return journal.Second{}, err
	}
	j, err := s.journalOf(ctx, load)
	return j.All(), err
}
