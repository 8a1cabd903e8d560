// Package limiterevents records Kubernetes events about Limiters.
package limiterevents

import (
	"strings"

	"k8s.io/client-go/tools/events"

	"github.com/weir-dev/weir/api/v1alpha1"
)

// maxNote is the length that a note is cut to, in bytes. The API server rejects an event whose note is longer than 1024 bytes.
const maxNote = 1000

// Record records an event about the Limiter. The type is corev1.EventTypeNormal or corev1.EventTypeWarning.
func Record(recorder events.EventRecorder, limiter *v1alpha1.Limiter, eventType, reason, action, note string) {
	recorder.Eventf(limiter, nil, eventType, reason, action, "%s", CutNote(note))
}

// CutNote cuts a note that the API server would reject.
func CutNote(note string) string {
	if len(note) <= maxNote {
		return note
	}
	return strings.ToValidUTF8(note[:maxNote], "") // the cut may be within a character
}
