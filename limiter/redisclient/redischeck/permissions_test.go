package redischeck_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/weir-dev/weir/limiter/redisclient"
	"github.com/weir-dev/weir/limiter/redisclient/redischeck"
	"github.com/weir-dev/weir/limiter/redisstore"
	"github.com/weir-dev/weir/test/fixture"
)

func names() redischeck.Names {
	return redischeck.NamesOf("weir:a/b:", "weir:").WithReplica(replica{})
}

type replica struct{}

func (replica) ReplicaKeys() (reads, writes string) {
	return "weir:rules:a/b:current", "weir:replicas:a/b"
}

func (replica) Channel() string { return "weir:rules:a/b" }

// The channel is also that of the store, which this package does not import.
func TestNamesOf_HasTheChannelOfTheStore(t *testing.T) {
	if channel := redisstore.InvalidationChannel("weir:"); names().Publishes != channel || !slices.Contains(names().Channels, channel) {
		t.Errorf("%+v, want the channel %s", names(), channel)
	}
}

// permissions are those of a limiter in the reference, for the names above.
func permissions() []string {
	return strings.Fields("on >secret resetkeys %R~weir:rules:a/b:* ~weir:replicas:a/b ~weir:a/b:throttle:* resetchannels &weir:rules:a/b &weir:forget -@all " +
		"+ping +info +subscribe +publish +evalsha +eval +time +mget +set +getrange +setrange +pexpireat +del +unlink " +
		"+hset +hget +hgetall +hlen +hdel +pexpire")
}

func missingRules(t *testing.T, server *fixture.RedisProcess, granted []string) []string {
	t.Helper()
	do(t, server, append([]string{"ACL", "SETUSER", "weir", "reset"}, granted...)...)
	missing, err := redischeck.MissingPermissions(t.Context(), open(t, "redis://weir:secret@"+server.Addr()), names())
	if err != nil {
		t.Fatal(err)
	}
	rules := []string{}
	for _, m := range missing {
		rules = append(rules, m.Rule)
		if !strings.Contains(m.String(), "grant the user "+m.Rule) {
			t.Errorf("%s: %s", m.Rule, m)
		}
	}
	return rules
}

func TestMissingPermissions_NamesEachThatIsMissing(t *testing.T) {
	server := fixture.Redis(t)
	granted := permissions()
	if rules := missingRules(t, server, granted); len(rules) > 0 {
		t.Errorf("with all permissions: %s are missing", rules)
	}
	for i, rule := range granted {
		if !strings.ContainsAny(rule[:1], "+~&%") {
			continue
		}
		want := rule
		if want == "%R~weir:rules:a/b:*" {
			want = "%R~weir:rules:a/b:current"
		}
		if rules := missingRules(t, server, slices.Delete(slices.Clone(granted), i, i+1)); !slices.Equal(rules, []string{want}) {
			t.Errorf("without %s: %s are missing, want %s", rule, rules, want)
		}
	}
}

func TestMissingPermissions_NamesACommandThatTheServerDoesNotHave(t *testing.T) {
	server := fixture.Redis(t, "--rename-command", "EVALSHA", "")
	missing, err := redischeck.MissingPermissions(t.Context(), open(t, server.URL()), names())
	if err != nil || len(missing) != 1 || !strings.Contains(missing[0].String(), "no command evalsha") {
		t.Errorf("%v, %v", missing, err)
	}
}

func TestMissingPermissions_LeavesNothingBehind(t *testing.T) {
	server := fixture.Redis(t)
	if _, err := redischeck.MissingPermissions(t.Context(), open(t, server.URL()), names()); err != nil {
		t.Fatal(err)
	}
	if keys, err := server.Do(t.Context(), "KEYS", "*"); err != nil || fmt.Sprint(keys) != "[]" {
		t.Errorf("keys %v, %v", keys, err)
	}
}

func TestMissingPermissions_WorkOnACluster(t *testing.T) {
	missing, err := redischeck.MissingPermissions(t.Context(), open(t, fixture.RedisCluster(t).URL()), names())
	if err != nil || len(missing) != 0 {
		t.Errorf("%v, %v", missing, err)
	}
}

func TestMissingPermissions_ReportAReplica(t *testing.T) {
	primary := fixture.Redis(t)
	server := fixture.Redis(t, "--replicaof", strings.ReplaceAll(primary.Addr(), ":", " "))
	_, err := redischeck.MissingPermissions(t.Context(), open(t, server.URL()), names())
	if setup, ok := errors.AsType[*redisclient.SetupError](err); !ok || !strings.Contains(setup.Advice, "is a replica") {
		t.Errorf("error %v", err)
	}
}

// Envoy's proxy for Redis does not have SUBSCRIBE. Limiters work without it.
func TestMissingPermissions_DoNotRequireSubscriptions(t *testing.T) {
	server := fixture.Redis(t, "--rename-command", "SUBSCRIBE", "")
	missing, err := redischeck.MissingPermissions(t.Context(), open(t, server.URL()), names())
	if err != nil || len(missing) != 1 || missing[0].Optional == "" || !strings.Contains(missing[0].String(), "no command subscribe") {
		t.Errorf("%v, %v", missing, err)
	}
}
