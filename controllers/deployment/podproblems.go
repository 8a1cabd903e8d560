package deployment

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/weir-dev/weir/api/v1alpha1"
)

const (
	// maxPodsRead bounds the pods that are read to find out why they are not ready.
	maxPodsRead = 100
	// maxProblem is the longest description of one problem of pods, in bytes.
	maxProblem = 256
	// maxProblems bounds the problems in a condition.
	maxProblems = 3
)

// pullBackOff matches the message of ImagePullBackOff, which contains the reason and the message of the failed pull. A pod alternates between the
// back-off and the pull. Both have the same cause.
var pullBackOff = regexp.MustCompile(`(?s)^Back-off pulling image "[^"]*": (\w+): (.+)`)

// podProblems describes why pods of the Limiter are not ready, in their own words: "2 pods: ErrImagePull: …". The Deployment only counts
// them. It returns nothing if the pods cannot be read: the condition then has the counts only.
func (r *Reconciler) podProblems(ctx context.Context, limiter *v1alpha1.Limiter) []string {
	var pods corev1.PodList
	err := r.Uncached.List(ctx, &pods, client.InNamespace(limiter.Namespace), client.MatchingLabels(selector(limiter)), client.Limit(maxPodsRead))
	if err != nil {
		log.FromContext(ctx).Info("Cannot read why pods are not ready", "error", err.Error())
		return nil
	}
	return describeProblems(pods.Items)
}

// describeProblems groups the pods by the reason, most pods first. The text is that of the oldest pod, so that it changes rarely.
func describeProblems(pods []corev1.Pod) []string {
	slices.SortFunc(pods, func(a, b corev1.Pod) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	type problem struct {
		reason, text string
		pods         int
	}
	var all []problem
	for i := range pods {
		reason, text := problemOf(&pods[i])
		if reason == "" {
			continue
		}
		known := slices.IndexFunc(all, func(p problem) bool { return p.reason == reason })
		if known < 0 {
			all = append(all, problem{reason, text, 1})
			continue
		}
		all[known].pods++
	}
	slices.SortStableFunc(all, func(a, b problem) int { return cmp.Compare(b.pods, a.pods) })
	var lines []string
	for _, p := range all[:min(len(all), maxProblems)] {
		noun := "pods"
		if p.pods == 1 {
			noun = "pod"
		}
		line := fmt.Sprintf("%d %s: %s", p.pods, noun, p.reason)
		if p.text != "" {
			line += ": " + p.text
		}
		lines = append(lines, line)
	}
	return lines
}

// problemOf returns the reason for which the pod does not run, and its description; "" if the pod runs.
func problemOf(pod *corev1.Pod) (reason, text string) {
	if !pod.DeletionTimestamp.IsZero() {
		return "", ""
	}
	for _, c := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		waiting, last := c.State.Waiting, c.LastTerminationState.Terminated
		switch {
		case waiting == nil || waiting.Reason == "ContainerCreating" || waiting.Reason == "PodInitializing":
		case last != nil: // its message about the back-off contains times and names of pods
			return waiting.Reason, shorten(fmt.Sprintf("%s with exit code %d: %s", last.Reason, last.ExitCode, last.Message))
		default:
			if cause := pullBackOff.FindStringSubmatch(waiting.Message); cause != nil {
				return cause[1], shorten(cause[2])
			}
			return waiting.Reason, shorten(waiting.Message)
		}
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return c.Reason, shorten(c.Message)
		}
	}
	if pod.Status.Phase == corev1.PodFailed { // evicted, for example
		return cmp.Or(pod.Status.Reason, "Failed"), shorten(pod.Status.Message)
	}
	return "", ""
}

// shorten returns the text as one line of bounded length. It removes the middle: a wrapped error begins with the operation and ends with the cause.
func shorten(text string) string {
	text = strings.TrimRight(strings.Join(strings.Fields(text), " "), ": ")
	if len(text) > maxProblem {
		text = strings.ToValidUTF8(text[:maxProblem/2], "") + "…" + strings.ToValidUTF8(text[len(text)-maxProblem/2:], "")
	}
	return text
}
