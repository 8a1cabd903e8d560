package limiterevents_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/controllers/limiterevents"
)

func TestRecord_CutsANoteThatTheAPIServerWouldReject(t *testing.T) {
	recorder := events.NewFakeRecorder(1)
	limiterevents.Record(recorder, &v1alpha1.Limiter{}, corev1.EventTypeWarning, "Reason", "Action", strings.Repeat("ü", 1000))
	event := <-recorder.Events
	if got := strings.Count(event, "ü"); got != 500 {
		t.Errorf("%d of 1000 two-byte characters are left, want 500", got)
	}
	if !utf8.ValidString(event) {
		t.Errorf("the event is not valid UTF-8: %q", event)
	}
}

func TestRecord_KeepsAPercentSignInANote(t *testing.T) {
	recorder := events.NewFakeRecorder(1)
	limiterevents.Record(recorder, &v1alpha1.Limiter{}, corev1.EventTypeNormal, "Reason", "Action", "100%d")
	if event := <-recorder.Events; !strings.HasSuffix(event, "100%d") {
		t.Errorf("event %q", event)
	}
}
