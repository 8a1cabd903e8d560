package admin

import (
	"context"
	"fmt"
	"net/http"

	"github.com/weir-dev/weir/limiter/reply"
	"github.com/weir-dev/weir/limiter/rules"
)

// RuleStore has the rule sets that the operator publishes, for example a controlplane.Exchange.
type RuleStore interface {
	// Current returns the revision of the active rule set, "" without one.
	Current(ctx context.Context) (revision string, err error)
	// Archive returns the encoded rule set of a revision, for [rules.Decode].
	Archive(ctx context.Context, revision string) (data []byte, found bool, err error)
}

// storedRules returns a published rule set: that of the parameter revision, or the active one.
func (h *handler) storedRules(w http.ResponseWriter, r *http.Request) {
	set, bad := h.readStored(r.Context(), r.URL.Query().Get("revision"))
	if bad != nil {
		bad.Write(w)
		return
	}
	write(w, set)
}

func (h *handler) readStored(ctx context.Context, revision string) (RuleSet, *reply.Problem) {
	if h.Published == nil {
		return RuleSet{}, reply.NewProblem(http.StatusNotFound, "", "this limiter has no published rule sets: it reads its policies from files")
	}
	unreadable := func(err error) *reply.Problem {
		return reply.NewProblem(http.StatusServiceUnavailable, "", "the published rules cannot be read: "+err.Error())
	}
	if revision == "" {
		var err error
		if revision, err = h.Published.Current(ctx); err != nil {
			return RuleSet{}, unreadable(err)
		}
		if revision == "" {
			return RuleSet{}, reply.NewProblem(http.StatusNotFound, "", "the operator has published no rules for this limiter")
		}
	}
	data, found, err := h.Published.Archive(ctx, revision)
	if err != nil {
		return RuleSet{}, unreadable(err)
	}
	if !found {
		return RuleSet{}, reply.NewProblem(http.StatusNotFound, "revision",
			fmt.Sprintf("revision %s is not in Redis: a rule set that was replaced is kept for an hour", quote(revision)))
	}
	set, err := rules.DecodeAs(data, revision)
	if err != nil {
		return RuleSet{}, unreadable(err)
	}
	out := RuleSet{Revision: revision, Rules: []Rule{}}
	for i := range set.Rules {
		out.Rules = append(out.Rules, Rule{Rule: set.Rules[i], Revision: set.Rules[i].Revision()})
	}
	return out, nil
}
