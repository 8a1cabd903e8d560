package admin

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/weir-dev/weir/limiter/admin/adminapi"
	"github.com/weir-dev/weir/limiter/bypass"
	"github.com/weir-dev/weir/limiter/engine"
	"github.com/weir-dev/weir/limiter/reply"
)

// Bypasses creates and ends bypasses of the policies of an engine.
type Bypasses struct {
	Engine *engine.Engine
	List   *bypass.List
	Clock  func() time.Time
	Log    *slog.Logger
}

// BypassList lists the bypasses that have not expired, the latest first.
type BypassList struct {
	Bypasses []bypass.Bypass `json:"bypasses"`
}

func validateBypass(r *adminapi.BypassRequest) *reply.Problem {
	bad := func(field, why string) *reply.Problem {
		return reply.NewProblem(http.StatusBadRequest, field, field+" "+why)
	}
	const most = int64(bypass.MaxDuration / time.Second)
	switch {
	case r.Policy == "":
		return bad("policy", "is required")
	case (r.Identifier == "") != r.AllIdentifiers:
		return bad("identifier", "is required, unless allIdentifiers is true")
	case r.Seconds < 1 || r.Seconds > most:
		return bad("seconds", fmt.Sprintf("must be from 1 to %d (%v): change the policy if it must last longer", most, bypass.MaxDuration))
	case strings.TrimSpace(r.Reason) == "":
		return bad("reason", "is required: it is logged with the name of the caller")
	case len(r.Reason) > bypass.MaxReason:
		return bad("reason", "is too long")
	case len(r.Identifier) > bypass.MaxIdentifier:
		return bad("identifier", "is too long")
	case len(r.Name) > maxID:
		return bad("name", "is too long")
	default:
		return nil
	}
}

// newBypassName returns a name for a bypass or a block, such as bypass-k3m5vq2xpa.
func newBypassName(of *bypass.Bypass) string {
	return of.Kind() + "-" + strings.ToLower(rand.Text()[:10])
}

// Create creates a bypass, and logs who did it and why.
func (b *Bypasses) Create(ctx context.Context, r *adminapi.BypassRequest) (bypass.Bypass, *reply.Problem) {
	if bad := validateBypass(r); bad != nil {
		return bypass.Bypass{}, bad
	}
	selected, bad := rulesOf(b.Engine, r.Policy)
	if bad != nil {
		return bypass.Bypass{}, bad
	}
	if policy := selected[0].PolicyName(); policy != r.Policy {
		return bypass.Bypass{}, reply.NewProblem(http.StatusBadRequest, "policy", quote(r.Policy)+" is one rate of a policy, and a "+
			(&bypass.Bypass{Blocks: r.Blocks}).Kind()+" is for all of its rates: use policy "+quote(policy))
	}
	if r.Blocks && selected[0].Shadow {
		return bypass.Bypass{}, reply.NewProblem(http.StatusConflict, "policy", "policy "+quote(r.Policy)+" has enforcement: Shadow, and denies nothing: "+
			"block the identifier in an enforced policy")
	}
	created := b.Clock()
	if r.CreatedAt != nil {
		created = *r.CreatedAt
	}
	created = created.UTC().Truncate(time.Second)
	entry := bypass.Bypass{
		Name: r.Name, Policy: r.Policy, Blocks: r.Blocks, AllIdentifiers: r.AllIdentifiers, Reason: r.Reason, CreatedBy: Caller(ctx), CreatedAt: created,
		ExpiresAt: created.Add(time.Duration(r.Seconds) * time.Second),
	}
	if r.Name == "" {
		entry.Name = newBypassName(&entry)
	}
	if !r.AllIdentifiers {
		if entry.Identifier, bad = countedAs(selected[0], r.Identifier); bad != nil {
			return bypass.Bypass{}, bad
		}
	}
	kind := entry.Kind()
	entry, err := b.List.Add(entry)
	b.Log.Warn(kind+" created", "bypass", entry.Name, "policy", r.Policy, "identifier", entry.Identifier, "allIdentifiers", r.AllIdentifiers,
		"expires", entry.ExpiresAt, "caller", Caller(ctx), "reason", r.Reason, "error", err)
	if err != nil {
		return bypass.Bypass{}, reply.NewProblem(http.StatusConflict, "", err.Error())
	}
	return entry, nil
}

// End ends a bypass, and logs who did it.
func (b *Bypasses) End(ctx context.Context, r *adminapi.EndBypassRequest) (bypass.Bypass, *reply.Problem) {
	missing := reply.NewProblem(http.StatusNotFound, "name", "there is no bypass "+quote(r.Name)+": it has expired, or another Limiter has it")
	if r.Policy != "" {
		missing.Detail = fmt.Sprintf("policy %s has no bypass %s: it has expired, or never existed", quote(r.Policy), quote(r.Name))
	}
	for _, entry := range b.List.All() {
		if entry.Name != r.Name || r.Policy != "" && entry.Policy != r.Policy {
			continue
		}
		ended, found := b.List.End(r.Name, Caller(ctx))
		if !found {
			return bypass.Bypass{}, missing
		}
		b.Log.Warn(ended.Kind()+" ended", "bypass", r.Name, "policy", ended.Policy, "identifier", ended.Identifier, "caller", Caller(ctx), "endedBy", ended.EndedBy)
		return ended, nil
	}
	return bypass.Bypass{}, missing
}

func (h *handler) bypasses(w http.ResponseWriter, r *http.Request) {
	policy := r.URL.Query().Get("policy")
	list := BypassList{Bypasses: []bypass.Bypass{}}
	for _, entry := range h.Bypasses.List.All() {
		if policy == "" || policy == entry.Policy {
			list.Bypasses = append(list.Bypasses, entry)
		}
	}
	write(w, &list)
}

func (h *handler) createBypass(w http.ResponseWriter, r *http.Request) {
	var request adminapi.BypassRequest
	if !readChange(w, r, &request) {
		return
	}
	created, bad := h.Bypasses.Create(r.Context(), &request)
	if bad != nil {
		bad.Write(w)
		return
	}
	write(w, &created)
}

func (h *handler) endBypass(w http.ResponseWriter, r *http.Request) {
	var request adminapi.EndBypassRequest
	if !readChange(w, r, &request) {
		return
	}
	ended, bad := h.Bypasses.End(r.Context(), &request)
	if bad != nil {
		bad.Write(w)
		return
	}
	write(w, &ended)
}
