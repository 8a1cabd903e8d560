package scenario

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

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/test/cluster/loadstats"
)

// limiterURL is the URL of the Limiter inside the cluster.
const limiterURL = "http://weir-limiter-default." + System + ":8080"

// The policies of the load.
const (
	SteadyPolicy = "steady" // never denies
	editedPolicy = "edited" // never denies, and is edited
	HotPolicy    = "hot"    // denies nearly all requests
	Plenty       = 1_000_000
	HotLimit     = 100 // per hour, counted exactly
)

// Load is the pod of a load generator. It runs until it is deleted, or until it has sent all requests.
type Load struct {
	name types.NamespacedName
	from time.Time
}

// StartLoad creates the policies of the load and starts the load.
func (s *Scenario) StartLoad(ctx context.Context) (Load, error) {
	hot := Policy(Traffic, HotPolicy, HotLimit, "1h")
	hot.Spec.Algorithm = "SlidingWindowLog"
	policies := []client.Object{Policy(Traffic, SteadyPolicy, Plenty, "1m"), Policy(Traffic, editedPolicy, Plenty, "1m"), hot}
	if err := s.CreateAll(ctx, append([]client.Object{Namespace(Traffic)}, policies...)...); err != nil {
		return Load{}, err
	}
	for _, p := range policies {
		if _, err := Await(ctx, 30*time.Second, s.HasCondition(p, Ready("Programmed"))); err != nil {
			return Load{}, err
		}
	}
	return s.ResumeLoad(ctx)
}

// ResumeLoad starts the load for existing policies.
func (s *Scenario) ResumeLoad(ctx context.Context) (Load, error) {
	load, err := s.startPod(ctx, "load", "-domain", Traffic, "-rate", strconv.Itoa(s.Options.Rate),
		"-request", "6 /"+SteadyPolicy+" 400", "-request", "3 /"+editedPolicy+" 1", "-request", "1 /"+HotPolicy+" 1")
	if err != nil {
		return load, err
	}
	_, err = Await(ctx, 30*time.Second, func(ctx context.Context) error {
		j, err := s.LoadStats(ctx, load)
		if err == nil && j.Total().Answered() < s.Options.Rate {
			err = fmt.Errorf("the load has reported only %v", j.Total())
		}
		return err
	})
	load.from = time.Now()
	return load, err
}

// StopLoad stops a load and reports its statistics. No request may have failed since the load began. Earlier requests may fail, because the node
// may not have the first pods of the Service yet.
func (s *Scenario) StopLoad(ctx context.Context, load Load) error {
	if err := s.WaitForStats(ctx, load, time.Now()); err != nil {
		return err
	}
	j, err := s.LoadStats(ctx, load)
	if err != nil {
		return err
	}
	s.Logf("the load in total: %v", j.Total())
	going := j.Between(load.from, j.End())
	s.Expect(going.Failed() == 0, "%d requests of the load failed: %v", going.Failed(), going.Failures)
	if err := s.saveStats(j); err != nil {
		return err
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: load.name.Namespace, Name: load.name.Name}}
	if err := s.Delete(ctx, pod); err != nil {
		return err
	}
	_, err = Await(ctx, 60*time.Second, s.Deleted(pod))
	return err
}

// saveStats saves the statistics of a load, second by second, in the artifacts.
func (s *Scenario) saveStats(j loadstats.Series) error {
	s.loads++
	file := filepath.Join(s.Options.Artifacts, fmt.Sprintf("load-%d.jsonl", s.loads))
	var text bytes.Buffer
	if err := errors.Join(j.Write(&text), os.MkdirAll(s.Options.Artifacts, 0o755)); err != nil {
		return fmt.Errorf("save the statistics of a load: %w", err)
	}
	if err := os.WriteFile(file, text.Bytes(), 0o644); err != nil {
		return fmt.Errorf("save the statistics of a load: %w", err)
	}
	return nil
}

// startPod starts a pod of the load generator.
func (s *Scenario) startPod(ctx context.Context, name string, args ...string) (Load, error) {
	pod := s.LoadGenerator(name, append([]string{"-url", limiterURL}, args...)...)
	err := s.CreateAll(ctx, pod)
	return Load{name: client.ObjectKeyFromObject(pod)}, err
}

// LoadGenerator returns a pod that runs test/cluster/load.
func (s *Scenario) LoadGenerator(name string, args ...string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: Traffic, Name: name, Labels: Labels()},
		Spec: corev1.PodSpec{
			RestartPolicy:                corev1.RestartPolicyNever,
			AutomountServiceAccountToken: new(false),
			EnableServiceLinks:           new(false),
			Containers: []corev1.Container{{
				Name: "load", Image: s.Options.Load, ImagePullPolicy: corev1.PullIfNotPresent,
				Args:      args,
				Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("10m")}},
			}},
		},
	}
}

// LoadStats returns the statistics that the load has written so far.
func (s *Scenario) LoadStats(ctx context.Context, load Load) (loadstats.Series, error) {
	log, err := s.Sets.CoreV1().Pods(load.name.Namespace).GetLogs(load.name.Name, &corev1.PodLogOptions{}).Stream(ctx)
	if err != nil {
		return nil, err
	}
	j, err := loadstats.Read(log)
	return j, errors.Join(err, log.Close())
}

// WaitForStats waits until the statistics of the load include the time until.
func (s *Scenario) WaitForStats(ctx context.Context, load Load, until time.Time) error {
	_, err := Await(ctx, 20*time.Second, func(ctx context.Context) error {
		j, err := s.LoadStats(ctx, load)
		if err == nil && j.End().Before(until) {
			err = fmt.Errorf("the statistics of the load end at %v, want %v", j.End(), until)
		}
		return err
	})
	return err
}

// UnderLoad runs do and returns the statistics of the load during that time and one more second. No request may fail.
func (s *Scenario) UnderLoad(ctx context.Context, load Load, what string, do Action) (loadstats.Second, error) {
	from := time.Now()
	if err := do(ctx); err != nil {
		return loadstats.Second{}, fmt.Errorf("%s: %w", what, err)
	}
	took := time.Since(from)
	if err := s.WaitForStats(ctx, load, time.Now().Add(time.Second)); err != nil {
		return loadstats.Second{}, err
	}
	j, err := s.LoadStats(ctx, load)
	if err != nil {
		return loadstats.Second{}, err
	}
	seen := j.Between(from, time.Now())
	s.Logf("%s, in %v: %v", what, took.Round(100*time.Millisecond), seen)
	s.Expect(seen.Failed() == 0, "%s: %d requests failed: %v", what, seen.Failed(), seen.Failures)
	s.Expect(seen.Answered() > 0, "%s: no request was answered", what)
	return seen, nil
}

// SendRequests sends the requests from a pod, and returns its statistics.
func (s *Scenario) SendRequests(ctx context.Context, args ...string) (loadstats.Second, error) {
	pod, err := s.startPod(ctx, "client", args...)
	if err != nil {
		return loadstats.Second{}, err
	}
	saw, err := s.finished(ctx, pod)
	if err != nil {
		return saw, err
	}
	return saw, s.Delete(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: pod.name.Namespace, Name: pod.name.Name}})
}

// finished waits until a pod has sent all requests, and returns its statistics.
func (s *Scenario) finished(ctx context.Context, load Load) (loadstats.Second, error) {
	_, err := Await(ctx, 60*time.Second, func(ctx context.Context) error {
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
		return loadstats.Second{}, err
	}
	j, err := s.LoadStats(ctx, load)
	return j.Total(), err
}

// EditWithin edits a policy, which must be Ready within limit.
func (s *Scenario) EditWithin(load Load, limit time.Duration) Action {
	return func(ctx context.Context) error { return s.edit(ctx, load, limit) }
}

// edit raises the limit of the edited policy. It reports when the API server has stored the edit, when the load got the first answer with
// the new limit and the last answer with the old limit, and when the policy was Ready.
func (s *Scenario) edit(ctx context.Context, load Load, limit time.Duration) error {
	s.edits++
	p := PolicyNamed(Traffic, editedPolicy)
	var before, after int64
	sent := time.Now()
	err := Change(ctx, s, p, func(p *v1alpha1.RateLimitPolicy) {
		before, after = *p.Spec.Limit, Plenty+s.edits
		p.Spec.Limit = &after
	})
	if err != nil {
		return err
	}
	stored := time.Now()
	took, err := Await(ctx, limit, s.HasCondition(p, Ready("Programmed")))
	if err != nil {
		s.Expect(false, "the edited policy is not Ready: %v", err)
		return nil
	}
	if err := s.WaitForStats(ctx, load, time.Now().Add(time.Second)); err != nil {
		return err
	}
	j, err := s.LoadStats(ctx, load)
	if err != nil {
		return err
	}
	old, renewed := seen(j, before), seen(j, after)
	took += stored.Sub(sent)
	s.Logf("the edit was stored after %v; first answer with the new limit after %v, last answer with the old limit after %v, Ready after %v",
		stored.Sub(sent).Round(time.Millisecond), renewed.First.Sub(sent).Round(time.Millisecond),
		old.Last.Sub(sent).Round(time.Millisecond), took.Round(time.Millisecond))
	s.Expect(!renewed.First.IsZero(), "no answer has the new limit %d", after)
	s.Expect(old.Last.Sub(sent) <= took+time.Second, "an answer with the old limit came %v after the policy was Ready", old.Last.Sub(sent)-took)
	return nil
}

// BeforeEdit returns when answers had the limit before the last edit.
func (s *Scenario) BeforeEdit(j loadstats.Series) loadstats.Seen { return seen(j, Plenty+s.edits-1) }

// seen returns when answers had this limit of the edited policy.
func seen(j loadstats.Series, limit int64) loadstats.Seen {
	return j.Total().Limits[fmt.Sprintf("%s/%s %d", Traffic, editedPolicy, limit)]
}
