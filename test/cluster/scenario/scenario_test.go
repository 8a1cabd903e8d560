package scenario

import (
	"bufio"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-dev/weir/api/v1alpha1"
)

func TestCheckCondition_RequiresTheConditionForTheCurrentGeneration(t *testing.T) {
	p := PolicyNamed("shop", "daily")
	p.Generation = 2
	p.Status = v1alpha1.RateLimitPolicyStatus{ObservedGeneration: 2, Conditions: []metav1.Condition{
		{Type: "Ready", Status: metav1.ConditionTrue, Reason: "Programmed", Message: "3 of 3 replicas enforce generation 2"},
	}}
	want := Condition{Kind: "Ready", Status: metav1.ConditionTrue, Reason: "Programmed", Text: "3 of 3"}
	if err := CheckCondition(p, want); err != nil {
		t.Error(err)
	}
	for name, change := range map[string]func(){
		"another text":   func() { want.Text = "2 of 2" },
		"another reason": func() { want.Text, want.Reason = "", "Pending" },
		"another status": func() { want.Reason, want.Status = "", metav1.ConditionFalse },
		"no condition":   func() { p.Status.Conditions = nil },
		"an older status": func() {
			want = Ready("")
			p.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: metav1.ConditionTrue}}
			p.Generation = 3
		},
	} {
		before, original := *p, want
		change()
		if err := CheckCondition(p, want); err == nil {
			t.Errorf("%s: accepted", name)
		}
		*p, want = before, original
	}
}

func TestAwait_ReturnsTheLastErrorAfterTheLimit(t *testing.T) {
	checks := 0
	_, err := Await(t.Context(), 3*PollInterval, func(context.Context) error {
		checks++
		return errors.New("2 of 3 pods")
	})
	if err == nil || !strings.Contains(err.Error(), "2 of 3 pods") || checks < 2 {
		t.Errorf("after %d checks: %v", checks, err)
	}
	if _, err := Await(t.Context(), time.Second, func(context.Context) error { return nil }); err != nil {
		t.Error(err)
	}
}

func TestBackdate_SetsTheTimeOfEachCA(t *testing.T) {
	got, err := Backdate([]byte(`[{"certificate":"a","key":"k"},{"certificate":"b","carried":"2026-11-21T10:00:00Z"}]`), time.Unix(0, 0))
	want := `[{"carried":"1970-01-01T00:00:00Z","certificate":"a","key":"k"},{"carried":"1970-01-01T00:00:00Z","certificate":"b"}]`
	if err != nil || string(got) != want {
		t.Errorf("%s, %v", got, err)
	}
}

func TestReadReply_ReturnsTextsAndNumbers(t *testing.T) {
	for reply, want := range map[string][]string{
		"*2\r\n$1\r\na\r\n$2\r\nbc\r\n": {"a", "bc"},
		"*0\r\n":                        nil,
		":-1\r\n":                       {"-1"},
	} {
		got, err := readReply(bufio.NewReader(strings.NewReader(reply)))
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %q, %v", reply, got, err)
		}
	}
	if _, err := readReply(bufio.NewReader(strings.NewReader("-ERR no\r\n"))); err == nil {
		t.Error("an error reply is accepted")
	}
}
