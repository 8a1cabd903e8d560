package adminproxy

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// replicaSilence is the longest time between two lines of a replica, which sends one every 10 seconds.
	replicaSilence = 30 * time.Second
	// maxLine is the size of the longest line of a replica, in bytes. A denial has some kilobytes.
	maxLine = 1 << 20
)

// replicaLine is a line that a replica sends, see admin.DenialLine.
type replicaLine struct {
	Denial  json.RawMessage `json:"denial"`
	Dropped int64           `json:"dropped"`
}

// event is a line of a replica for the user, or the end of following it.
type event struct {
	uid   types.UID
	line  DenialLine
	ended bool
	// problem is the answer of a replica that rejects the request.
	problem *problem
}

// follower follows the denials of pods.
type follower struct {
	transport http.RoundTripper
	request   *call
	// events has room for few lines: if the user reads slowly, the replicas wait, and count the denials that they drop.
	events chan event
}

// follow sends the denials of a pod to events until the replica ends or ctx is done, and then the reason.
func (f *follower) follow(ctx context.Context, pod *corev1.Pod) {
	end := event{uid: pod.UID, ended: true, line: DenialLine{Pod: pod.Name}}
	address, err := adminAddress(pod)
	if err == nil {
		end.problem, err = f.read(ctx, pod, address)
	}
	switch {
	case err != nil:
		end.line.Error = describe(pod, err)
	case end.problem != nil:
		end.line.Error = end.problem.Detail
	}
	select {
	case f.events <- end:
	case <-ctx.Done():
	}
}

// read sends the lines of a replica until it ends. It returns a problem if the replica rejects the request.
func (f *follower) read(ctx context.Context, pod *corev1.Pod, address string) (*problem, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	late := time.AfterFunc(replicaTimeout, func() { cancel(context.DeadlineExceeded) })
	defer func() { late.Stop() }()
	target := url.URL{Scheme: "https", Host: address, Path: f.request.path, RawQuery: f.request.query}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, target.String(), http.NoBody)
	if err != nil {
		return nil, err
	}
	request.Header.Set(CallerHeader, url.QueryEscape(f.request.user))
	response, err := f.transport.RoundTrip(request)
	if err != nil {
		return nil, cmp.Or(context.Cause(ctx), err)
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return rejection(response)
	}
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, maxLine)
	for following := true; lines.Scan(); following = false {
		late.Stop() // the time that the user takes to read is not the replica's
		var line replicaLine
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			return nil, fmt.Errorf("read the denials: %w", err)
		}
		if following || line.Denial != nil || line.Dropped > 0 {
			select {
			case f.events <- event{uid: pod.UID, line: DenialLine{Pod: pod.Name, Following: following, Denial: line.Denial, Dropped: line.Dropped}}:
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		}
		late = time.AfterFunc(replicaSilence, func() { cancel(fmt.Errorf("it has sent nothing for %v", replicaSilence)) })
	}
	return nil, cmp.Or(context.Cause(ctx), lines.Err(), errors.New("it has ended the stream"))
}

// rejection returns the problem with which a replica answers.
func rejection(response *http.Response) (*problem, error) {
	bad := newProblem(response.StatusCode, "it answers %s", response.Status)
	text, err := io.ReadAll(io.LimitReader(response.Body, maxLine))
	if err != nil {
		return nil, fmt.Errorf("read the answer: %w", err)
	}
	var given problem
	if json.Unmarshal(text, &given) == nil && given.Detail != "" {
		bad.Detail = given.Detail
	}
	return bad, nil
}
