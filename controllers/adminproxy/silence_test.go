package adminproxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// silentReplica answers with a header after the first wait, and a line after each of the others. Then it sends nothing. A negative wait never ends.
type silentReplica []time.Duration

// RoundTrip implements http.RoundTripper.
func (s silentReplica) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx := r.Context()
	wait := func(lasts time.Duration) {
		if lasts < 0 {
			<-ctx.Done()
		}
		time.Sleep(lasts)
	}
	if wait(s[0]); ctx.Err() != nil {
		return nil, ctx.Err()
	}
	body, lines := io.Pipe()
	go func() {
		for _, lasts := range s[1:] {
			wait(lasts)
			_, _ = io.WriteString(lines, "{}\n")
		}
		<-ctx.Done()
		_ = lines.CloseWithError(ctx.Err())
	}()
	return &http.Response{StatusCode: http.StatusOK, Body: body, Request: r}, nil
}

func TestFollow_EndsWhenAReplicaIsSilent(t *testing.T) {
	const second, never = time.Second, time.Duration(-1)
	for name, test := range map[string]struct {
		replica silentReplica
		after   time.Duration
		want    string
	}{
		"no header":                 {silentReplica{never}, 5 * second, "no answer within 5s"},
		"no line":                   {silentReplica{4 * second}, 5 * second, "no answer within 5s"},
		"one line":                  {silentReplica{4 * second, 0}, 34 * second, "it has sent nothing for 30s"},
		"a line within each period": {silentReplica{0, 0, 29 * second, 29 * second}, 88 * second, "it has sent nothing for 30s"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := follower{transport: test.replica, request: &call{path: "/admin/v1/denials", user: "jane"}, events: make(chan event, 64)}
				began := time.Now()
				f.follow(t.Context(), replicaPod())
				var last event
				for len(f.events) > 0 {
					last = <-f.events
				}
				if took := time.Since(began); took != test.after || !last.ended || last.line.Error != test.want {
					t.Errorf("after %v: %+v, want %q after %v", took, last, test.want, test.after)
				}
				synctest.Wait()
			})
		})
	}
}

// While the user reads slowly, the operator does not read what the replica sends.
func TestFollow_ASlowUserIsNotTheSilenceOfTheReplica(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := follower{transport: silentReplica{0, 0}, request: &call{path: "/admin/v1/denials", user: "jane"}, events: make(chan event)}
		go f.follow(t.Context(), replicaPod())
		time.Sleep(time.Hour)
		if e := <-f.events; !e.line.Following || e.ended {
			t.Errorf("%+v", e)
		}
		began := time.Now()
		if e := <-f.events; !e.ended || e.line.Error != "it has sent nothing for 30s" || time.Since(began) != 30*time.Second {
			t.Errorf("after %v: %+v", time.Since(began), e)
		}
	})
}

// A replica counts the denials that a slow operator does not read, also without one that follows.
func TestFollow_PassesOnHowManyDenialsAReplicaHasDropped(t *testing.T) {
	answer := &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader("{}\n{}\n" + `{"dropped":1}`))}
	f := follower{transport: answering{answer, nil}, request: &call{path: "/admin/v1/denials", user: "jane"}, events: make(chan event, 64)}
	f.follow(t.Context(), replicaPod())
	close(f.events)
	var got []DenialLine
	for e := range f.events {
		got = append(got, e.line)
	}
	want := []DenialLine{{Pod: "main-1", Following: true}, {Pod: "main-1", Dropped: 1}, {Pod: "main-1", Error: "it has ended the stream"}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

// answering is a replica with this answer.
type answering struct {
	response *http.Response
	err      error
}

// RoundTrip implements http.RoundTripper.
func (a answering) RoundTrip(*http.Request) (*http.Response, error) { return a.response, a.err }

func TestFollow_NamesWhyAReplicaIsNotFollowed(t *testing.T) {
	answer := func(status int, body io.Reader) answering {
		return answering{&http.Response{StatusCode: status, Status: fmt.Sprint(status, " ", http.StatusText(status)), Body: io.NopCloser(body)}, nil}
	}
	for _, test := range []struct {
		replica  answering
		want     string
		rejected bool
	}{
		{answer(503, strings.NewReader("<html>")), "it answers 503 Service Unavailable", true},
		{answer(503, strings.NewReader(`{"title":"x"}`)), "it answers 503 Service Unavailable", true},
		{answer(404, strings.NewReader(`{"detail":"not enforced"}`)), "not enforced", true},
		{answer(404, iotest.ErrReader(errors.New("reset"))), "read the answer: reset", false},
		{answer(200, iotest.ErrReader(errors.New("reset"))), "reset", false},
		{answer(200, strings.NewReader(strings.Repeat("x", maxLine+1))), "bufio.Scanner: token too long", false},
		{answering{nil, errors.New("refused")}, "refused", false},
	} {
		f := follower{transport: test.replica, request: &call{path: "/admin/v1/denials", user: "jane"}, events: make(chan event, 64)}
		f.follow(t.Context(), replicaPod())
		if e := <-f.events; !e.ended || e.line.Error != test.want || (e.problem != nil) != test.rejected {
			t.Errorf("%+v, want %q", e, test.want)
		}
	}
}

func TestFollow_EndsWithTheUser(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		f := follower{transport: silentReplica{0, 0}, request: &call{path: "/admin/v1/denials", user: "jane"}, events: make(chan event)}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			f.follow(ctx, replicaPod())
		}()
		time.Sleep(time.Minute) // the user does not receive the line
		cancel()
		<-ended
	})
}

// replicaPod is a pod with an address.
func replicaPod() *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "main-1"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "limiter", Ports: []corev1.ContainerPort{{Name: "admin", ContainerPort: 1}}}}},
		Status:     corev1.PodStatus{PodIP: "192.0.2.1"},
	}
}
