package report

import (
	"maps"

	"k8s.io/apimachinery/pkg/types"

	"github.com/weir-dev/weir/controllers/ruleset/selection"
	"github.com/weir-dev/weir/internal/compile"
)

// Webhook is for which policies with match.kubernetes API servers call a Limiter.
type Webhook struct {
	// Problem is why API servers do not call the Limiter, or cannot. It is empty if they do.
	Problem string
	// Covers states for each policy whether the webhook covers that generation. It does not cover a policy that matches only exempt writes.
	Covers map[types.UID]Coverage
}

// Coverage is whether the webhook covers a generation of a policy.
type Coverage struct {
	Generation int64
	Covered    bool
}

// SetWebhooks sets the webhooks of all Limiters, by their UIDs. The webhooks belong to the states afterwards.
func (l *LimiterStates) SetWebhooks(webhooks map[types.UID]Webhook) {
	l.mu.Lock()
	unchanged := maps.EqualFunc(l.webhooks, webhooks, func(a, b Webhook) bool {
		return a.Problem == b.Problem && maps.Equal(a.Covers, b.Covers)
	})
	l.webhooks = webhooks
	l.mu.Unlock()
	if !unchanged {
		l.notify()
	}
}

// allWebhooks returns the webhooks by Limiter. They are read-only.
func (l *LimiterStates) allWebhooks() map[types.UID]Webhook {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.webhooks
}

// webhookProblem returns why API servers do not call the Limiter for the policy; empty if they do, or if the policy limits no writes. It is
// not known until the webhooks of the Limiter have been set.
func (l *LimiterStates) webhookProblem(limiter types.UID, p selection.Policy) (problem string, known bool) {
	if !compile.LimitsWrites(p.Match) {
		return "", true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	webhook, known := l.webhooks[limiter]
	if !known || webhook.Problem != "" {
		return webhook.Problem, known
	}
	switch c, listed := webhook.Covers[p.GetUID()]; {
	case !listed || c.Generation != p.GetGeneration():
		return "the webhook does not cover this generation of the policy yet", true
	case !c.Covered:
		return "the policy matches only writes that are never limited", true
	default:
		return "", true
	}
}
