package adminproxy

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/controllers/adminproxy/proxyapi"
	"github.com/weir-dev/weir/limiter/admin/adminapi"
)

// maxBypassAnswer is the size of the largest answer of a replica to a change of a bypass, in bytes.
const maxBypassAnswer = 64 << 10

// parseBypass returns the record of the request in body, and the body to forward, as parseReset does. The operator sets the name and the time,
// so that all replicas create the same bypass.
func parseBypass(body []byte, now time.Time) (record changeRecord, forward []byte, bad *problem) {
	var request adminapi.BypassRequest
	if bad := decodeStrictly(body, &request); bad != nil {
		return nil, nil, bad
	}
	if request.Name != "" || request.CreatedAt != nil {
		return nil, nil, newProblem(http.StatusBadRequest, "the body is invalid: the operator sets name and createdAt")
	}
	now = now.UTC().Truncate(time.Second)
	request.Name, request.CreatedAt = kindOf(request.Blocks)+"-"+strings.ToLower(rand.Text()[:10]), &now
	forward, bad = encode(request)
	return &bypassRecord{blocks: request.Blocks, policy: request.Policy, name: request.Name, created: &request, rejected: true}, forward, bad
}

func parseEndBypass(body []byte) (record changeRecord, forward []byte, bad *problem) {
	var request adminapi.EndBypassRequest
	if bad := decodeStrictly(body, &request); bad != nil {
		return nil, nil, bad
	}
	forward, bad = encode(request)
	return &bypassRecord{policy: request.Policy, name: request.Name, rejected: true}, forward, bad
}

// kindOf names a bypass or a block.
func kindOf(blocks bool) string {
	if blocks {
		return "block"
	}
	return "bypass"
}

// bypassRecord is what is recorded of the creation or the end of a bypass.
type bypassRecord struct {
	policy, name string                  // of the end, the policy can be one that replicas report
	created      *adminapi.BypassRequest // nil if it is the end
	blocks       bool                    // of the end, as replicas report it
	identifier   string                  // as replicas count it; "" if no replica reports it
	// replicas is the number of replicas, done the number of those that confirm the change.
	replicas, done int
	// rejected is true if all replicas have rejected the request, so that nothing was changed.
	rejected bool
}

// add implements changeRecord.
func (b *bypassRecord) add(replica *proxyapi.Replica) {
	b.replicas++
	if replica.Status < 400 || replica.Status >= 500 {
		b.rejected = false
	}
	var result struct {
		Name       string `json:"name"`
		Policy     string `json:"policy"`
		Identifier string `json:"identifier"`
		Blocks     bool   `json:"blocks"`
	}
	if replica.Status == http.StatusOK && json.Unmarshal(replica.Body, &result) == nil && result.Name != "" {
		b.done++
		b.blocks = b.blocks || result.Blocks
		b.identifier, b.policy = cmp.Or(b.identifier, result.Identifier), cmp.Or(b.policy, result.Policy)
	}
}

// write implements changeRecord. A change that no replica confirms is recorded, too: on the Limiter, if the policy is unknown.
func (b *bypassRecord) write(ctx context.Context, h *handler, of *v1alpha1.Limiter, user string) {
	ctx, cancel := context.WithTimeout(ctx, eventsTimeout)
	defer cancel()
	limiterName := of.Namespace + "/" + of.Name
	reason, kind := reasonBypassed, kindOf(b.blocks)
	if b.blocks {
		reason = reasonBlocked
	}
	var err error
	switch {
	case b.rejected:
	case b.policy == "":
		err = h.createEventOn(ctx, of, limiterReference(of), of.Namespace, reason, b.note(user, limiterName))
	default:
		err = h.createEvent(ctx, of, b.policy, reason, b.note(user, limiterName))
	}
	log := h.Log.With("bypass", b.name, "policy", b.policy, "identifier", b.identifier, "limiter", limiterName, "replicas", b.done, "of", b.replicas,
		"rejected", b.rejected, "caller", user, "error", err)
	if b.created == nil {
		log.Warn(kind + " ended")
		return
	}
	log.Warn(kind+" created", "allIdentifiers", b.created.AllIdentifiers, "seconds", b.created.Seconds, "reason", b.created.Reason)
}

// note returns the note of an event.
func (b *bypassRecord) note(user, limiterName string) string {
	confirmed := fmt.Sprintf("confirmed by %d of %d replicas of Limiter %s", b.done, b.replicas, limiterName)
	if b.created == nil {
		did := "ended"
		if b.done == 0 {
			did = "tried to end"
		}
		return fmt.Sprintf("User %q %s %q, %s", user, did, clip(b.name), confirmed)
	}
	did, who := "lets", fmt.Sprintf("identifier %q", clip(b.identifier))
	if b.done == 0 {
		did = "tried to let"
	}
	switch {
	case b.created.AllIdentifiers:
		who = "all identifiers"
	case b.identifier == "":
		who = "an identifier"
	}
	lasts := time.Duration(b.created.Seconds) * time.Second
	if b.blocks {
		did = "blocks"
		if b.done == 0 {
			did = "tried to block"
		}
		return fmt.Sprintf("User %q %s %s for %v with %s, %s: %s", user, did, who, lasts, b.name, confirmed, b.created.Reason)
	}
	return fmt.Sprintf("User %q %s %s pass for %v with %s, %s: %s", user, did, who, lasts, b.name, confirmed, b.created.Reason)
}
