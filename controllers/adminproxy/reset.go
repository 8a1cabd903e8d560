package adminproxy

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/limiter/admin/adminapi"
)

// The reasons of events.
const (
	reasonReset    = "Reset"
	reasonBypassed = "Bypassed"
	reasonBlocked  = "Blocked"
)

const (
	// maxResetEvents is the number of events of one reset: replicas report the policies, and one of them can be compromised.
	maxResetEvents = 100
	// eventsTimeout bounds the creation of all events of one reset.
	eventsTimeout = 5 * time.Second
	// maxResetAnswer is the size of the largest answer of a replica to a reset, in bytes. It is decoded, which takes a multiple.
	maxResetAnswer = 8 << 20
	// maxReported is the size of all policies and identifiers that the replicas report, in bytes. The others are not recorded.
	maxReported = 8 << 20
)

// resetResult has the fields of admin.ResetResult that are recorded: the others would only take memory.
type resetResult struct {
	// Identifier as it is counted: an API key is hashed. The request can contain the API key.
	Identifier string `json:"identifier"`
	Counters   []struct {
		Policy     string `json:"policy"`
		Identifier string `json:"identifier"`
	} `json:"counters"`
}

// parseReset returns the request in body, and the body to forward. It is the request that is recorded, in another encoding: so a replica cannot
// understand anything else.
func parseReset(body []byte) (record changeRecord, forward []byte, bad *problem) {
	var request adminapi.ResetRequest
	if bad := decodeStrictly(body, &request); bad != nil {
		return nil, nil, bad
	}
	forward, bad = encode(request)
	return newResetRecord(request), forward, bad
}

func decodeStrictly(body []byte, request any) *problem {
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(request); err != nil {
		return newProblem(http.StatusBadRequest, "the body is invalid: %v", err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return newProblem(http.StatusBadRequest, "the body is invalid: it must end after the JSON value")
	}
	return nil
}

func encode(request any) ([]byte, *problem) {
	forward, err := json.Marshal(request)
	if err != nil {
		return nil, newProblem(http.StatusBadRequest, "the body is invalid: %v", err)
	}
	return forward, nil
}

// write implements changeRecord: events are on the named policy, on each policy whose counters were reset, or else on the Limiter.
// Events of the recorder are not used: it would count a second reset with another user and another reason as a repetition of the first one.
func (r *resetRecord) write(ctx context.Context, h *handler, of *v1alpha1.Limiter, user string) {
	if r.request.DryRun {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, eventsTimeout)
	defer cancel()
	limiterName := of.Namespace + "/" + of.Name
	recorded := false
	for i, policy := range slices.Sorted(maps.Keys(r.identifiers)) {
		if i == maxResetEvents {
			h.Log.Warn("counters reset", "policies", len(r.identifiers), "withoutEvent", len(r.identifiers)-i, "limiter", limiterName, "caller", user)
			break
		}
		note := resetNote(user, r.identifiers[policy], r.done, r.replicas, limiterName, r.request.Reason)
		var err error
		if !r.rejected {
			err = h.createEvent(ctx, of, policy, reasonReset, note)
			recorded = recorded || err == nil
		}
		h.Log.Warn("counters reset", "policy", policy, "identifier", r.identifiers[policy], "limiter", limiterName,
			"replicas", r.done, "of", r.replicas, "rejected", r.rejected, "caller", user, "reason", r.request.Reason, "error", err)
	}
	if recorded || r.rejected && r.request.Policy != "" {
		return
	}
	var err error
	if !r.rejected {
		err = h.createEventOn(ctx, of, limiterReference(of), of.Namespace, reasonReset, resetNote(user, "", r.done, r.replicas, limiterName, r.request.Reason))
	}
	h.Log.Warn("counters reset", "allPolicies", r.request.AllPolicies, "limiter", limiterName,
		"replicas", r.done, "of", r.replicas, "rejected", r.rejected, "caller", user, "reason", r.request.Reason, "error", err)
}

// resetNote returns the note of an event. The identifier is empty if it is not known how it is counted.
func resetNote(user, identifier string, done, replicas int, limiterName, reason string) string {
	who := "an identifier"
	if identifier != "" {
		who = fmt.Sprintf("identifier %q", clip(identifier))
	}
	if done == 0 {
		return fmt.Sprintf("User %q tried to reset the counters of %s: 0 of %d replicas of Limiter %s confirmed: %s", user, who, replicas, limiterName, reason)
	}
	return fmt.Sprintf("User %q reset the counters of %s on %d of %d replicas of Limiter %s: %s", user, who, done, replicas, limiterName, reason)
}
