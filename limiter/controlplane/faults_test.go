package controlplane

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/weir-dev/weir/limiter/redisclient"
	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/test/fixture"
)

// faults makes the commands fail that match, before they are sent. A pipeline with such a command is not sent.
type faults struct{ match func(words string) bool }

var errInjected = errors.New("injected")

func (f *faults) fails(cmds ...redis.Cmder) bool {
	return f.match != nil && slices.ContainsFunc(cmds, func(c redis.Cmder) bool {
		var words []string
		for _, arg := range c.Args() {
			if word, ok := arg.(string); ok {
				words = append(words, word)
			}
		}
		return f.match(strings.Join(words, " "))
	})
}

func (f *faults) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

func (f *faults) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if f.fails(cmd) {
			cmd.SetErr(errInjected)
			return errInjected
		}
		return next(ctx, cmd)
	}
}

func (f *faults) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if f.fails(cmds...) {
			for _, cmd := range cmds {
				cmd.SetErr(errInjected)
			}
			return errInjected
		}
		return next(ctx, cmds)
	}
}

// faulty returns an Exchange whose commands fail as f demands.
func faulty(t *testing.T) (*Exchange, *faults, *redisclient.Client) {
	t.Helper()
	client := open(t, fixture.Redis(t).URL())
	f := &faults{}
	client.Redis().AddHook(f)
	return exchange(client), f, client
}

// beginsWith matches commands by their first words.
func beginsWith(prefix string) func(string) bool {
	return func(words string) bool { return strings.HasPrefix(words, prefix) }
}

// Whatever fails: a pointer never names a Set that does not exist, and the next attempt completes the work.
func TestPublish_KeepsThePointerValidIfACommandFails(t *testing.T) {
	const channel = "weir:rules:weir-system/default"
	for name, test := range map[string]struct {
		prefix, message string
		changed         bool
		current         string
	}{
		"reading the pointer":          {"getrange " + channel + ":current", "read " + channel + ":current", false, "sha256:a"},
		"writing the Set":              {"set " + channel + ":set:", "write rule set sha256:b", false, "sha256:a"},
		"writing the pointer":          {"set " + channel + ":current", "set " + channel + ":current to sha256:b", false, "sha256:a"},
		"publishing the revision":      {"publish " + channel, "publish revision sha256:b on channel " + channel, true, "sha256:b"},
		"the expiry of the superseded": {"pexpire " + channel + ":set:", "set the expiry of rule set sha256:a", true, "sha256:b"},
	} {
		t.Run(name, func(t *testing.T) {
			e, f, _ := faulty(t)
			publish(t, e, "sha256:a", "A")
			f.match = beginsWith(test.prefix)
			changed, err := e.Publish(t.Context(), rules.Encoded{Revision: "sha256:b", Data: []byte("B")}, false)
			if !errors.Is(err, errInjected) || !strings.HasPrefix(err.Error(), test.message+": ") || changed != test.changed {
				t.Errorf("changed %v, %v; want %v and an error %q", changed, err, test.changed, test.message)
			}
			f.match = nil
			current, err := e.Current(t.Context())
			if err != nil || current != test.current {
				t.Errorf("the pointer names %s, %v; want %s", current, err, test.current)
			}
			if _, found, err := e.Load(t.Context(), current); err != nil || !found {
				t.Errorf("the Set of the pointer is missing: %v", err)
			}
			if publish(t, e, "sha256:b", "B") == test.changed {
				t.Errorf("the next Publish changed something: %v", test.changed)
			}
			if data, found, err := e.Load(t.Context(), "sha256:b"); err != nil || !found || string(data) != "B" {
				t.Errorf("Load = %q, %v, %v", data, found, err)
			}
		})
	}
}

func TestExchange_ReturnsWhatFailed(t *testing.T) {
	const channel, list = "weir:rules:weir-system/default", "weir:replicas:weir-system/default"
	for name, test := range map[string]struct {
		prefix, message string
		call            func(context.Context, *Exchange) error
		left            int // keys of the limiter afterwards
	}{
		"Current": {"getrange", "read " + channel + ":current", func(ctx context.Context, e *Exchange) error {
			_, err := e.Current(ctx)
			return err
		}, 4},
		"Load": {"getrange", "read rule set sha256:b", func(ctx context.Context, e *Exchange) error {
			_, found, err := e.Load(ctx, "sha256:b")
			if found {
				return nil
			}
			return err
		}, 4},
		"Leave reads":              {"getrange", "read " + channel + ":current", func(ctx context.Context, e *Exchange) error { return e.Leave(ctx) }, 4},
		"Leave expires the Set":    {"pexpire " + channel + ":set:", "set the expiry of rule set sha256:b", func(ctx context.Context, e *Exchange) error { return e.Leave(ctx) }, 4},
		"Leave expires":            {"pexpire " + channel + ":current", "set the expiry of " + channel + ":current", func(ctx context.Context, e *Exchange) error { return e.Leave(ctx) }, 4},
		"Clear reads":              {"getrange", "read " + channel + ":current", func(ctx context.Context, e *Exchange) error { return e.Clear(ctx) }, 4},
		"Clear lists":              {"evalsha", "read " + channel + ":superseded", func(ctx context.Context, e *Exchange) error { return e.Clear(ctx) }, 1}, // expires
		"Clear removes":            {"del " + channel + ":current", "remove " + channel + ":current", func(ctx context.Context, e *Exchange) error { return e.Clear(ctx) }, 4},
		"Clear removes the others": {"del " + list, "remove the rule sets and heartbeats of weir-system/default", func(ctx context.Context, e *Exchange) error { return e.Clear(ctx) }, 2},
		"Clear reads the expiries": {"pttl", "read the expiry of 1 rule sets of weir-system/default", func(ctx context.Context, e *Exchange) error { return e.Clear(ctx) }, 3},
		"Clear reads the Sets":     {"getrange " + channel + ":set:", "read rule set sha256:b", func(ctx context.Context, e *Exchange) error { return e.Clear(ctx) }, 3},
		"Clear removes the Sets":   {"del " + channel + ":set:", "remove 1 rule sets of weir-system/default", func(ctx context.Context, e *Exchange) error { return e.Clear(ctx) }, 3},
		"Remove":                   {"hdel", "remove replica a", func(ctx context.Context, e *Exchange) error { return e.Remove(ctx, "a") }, 4},
		"Heartbeat":                {"evalsha", "send the heartbeat of replica b", func(ctx context.Context, e *Exchange) error { return e.Heartbeat(ctx, Replica{ID: "b"}) }, 4},
		"Replicas": {"evalsha", "list the replicas in " + list, func(ctx context.Context, e *Exchange) error {
			_, err := e.Replicas(ctx)
			return err
		}, 4},
	} {
		t.Run(name, func(t *testing.T) {
			e, f, client := faulty(t)
			publish(t, e, "sha256:a", "A")
			publish(t, e, "sha256:b", "B")
			heartbeat(t, e, Replica{ID: "a"})
			if err := client.Redis().Del(t.Context(), e.supersededKey()).Err(); name != "Clear lists" && err != nil {
				t.Fatal(err)
			}
			f.match = beginsWith(test.prefix)
			if err := test.call(t.Context(), e); !errors.Is(err, errInjected) || !strings.HasPrefix(err.Error(), test.message+": ") {
				t.Errorf("%v, want an error %q", err, test.message)
			}
			f.match = nil
			if left, err := client.Redis().Keys(t.Context(), "*").Result(); err != nil || len(left) != test.left {
				t.Errorf("keys %q, %v; want %d", left, err, test.left)
			}
		})
	}
}

// The replicas script of another version, or a proxy, may reply what this one does not expect.
func TestReplicas_FailsForAnUnknownReply(t *testing.T) {
	e, _, _ := faulty(t)
	e.listReplicas = redisclient.NewScript("replicas", "return {'1', '2'}")
	if _, err := e.Replicas(t.Context()); err == nil || !strings.Contains(err.Error(), "list the replicas in weir:replicas:weir-system/default: got 2 elements") {
		t.Errorf("%v, want an error about the number of elements", err)
	}
}

// A reader that is slow misses older revisions, never the latest.
func TestReplace_KeepsTheLatestRevision(t *testing.T) {
	out := make(chan string, 1)
	for _, revision := range []string{"", "a", "b", "c"} {
		replace(out, revision)
	}
	if got := <-out; got != "c" {
		t.Errorf("received %q, want c", got)
	}
	select {
	case got := <-out:
		t.Errorf("received also %q", got)
	default:
	}
}

// The Limiter was created with another Redis, and moved before anything was published.
func TestLeave_SendsNothingIfNoSetWasPublished(t *testing.T) {
	e, f, _ := faulty(t)
	f.match = beginsWith("pexpire")
	if err := e.Leave(t.Context()); err != nil {
		t.Error(err)
	}
}
