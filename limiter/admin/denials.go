package admin

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/weir-dev/weir/limiter/decisionlog"
	"github.com/weir-dev/weir/limiter/reply"
)

const (
	// beat is the longest time between two lines of a stream of denials, so that both sides notice if the other one has gone.
	beat = 10 * time.Second
	// lineTimeout bounds the time that a line takes to be sent.
	lineTimeout = 10 * time.Second
)

// DenialLine is a line in a stream of denials. If both fields are empty, it only shows that the stream continues.
type DenialLine struct {
	Denial *decisionlog.Record `json:"denial,omitempty"`
	// Dropped is the number of denials before this line that are not in the stream, because there were too many.
	Dropped int64 `json:"dropped,omitempty"`
}

// denials streams denials as lines of JSON, until the caller closes the connection.
func (h *handler) denials(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	filter := decisionlog.Filter{Policy: query.Get("policy"), Identifier: query.Get("identifier"), Endpoint: query.Get("endpoint")}
	if filter.Identifier != "" && !h.Decisions.HasIdentifiers() {
		reply.NewProblem(http.StatusBadRequest, "identifier", "denials of this limiter have no identifiers to select: decisionLog.identifiers of the Limiter "+
			"(--decision-log-identifiers) is Omitted. Remove identifier, or set Counted or Hashed").Write(w)
		return
	}
	if filter.Policy != "" {
		if _, bad := h.Counters.rules(filter.Policy); bad != nil {
			bad.Write(w)
			return
		}
	}
	follower, err := h.Decisions.Follow(filter)
	if err != nil {
		reply.NewProblem(http.StatusServiceUnavailable, "", err.Error()).Write(w)
		return
	}
	defer h.Decisions.Unfollow(follower)
	w.Header().Set("Content-Type", "application/x-ndjson")
	out, lines := http.NewResponseController(w), json.NewEncoder(w)
	ticker := time.NewTicker(beat)
	defer ticker.Stop()
	var line DenialLine // the first line shows that the stream has begun
	for {
		_ = out.SetWriteDeadline(time.Now().Add(lineTimeout)) // fails for a writer without deadlines, as in a test
		if err := lines.Encode(&line); err != nil || out.Flush() != nil {
			return
		}
		line = DenialLine{}
		select {
		case record := <-follower.Records():
			line.Denial = &record
		case <-ticker.C:
		case <-r.Context().Done():
			return
		}
		line.Dropped = follower.Dropped()
	}
}
