package redisclient_test

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/weir-dev/weir/limiter/redisclient"
)

// reply is an error reply of Redis.
type reply string

func (r reply) Error() string { return string(r) }
func (reply) RedisError()     {}

// What a kind means for the caller: whether the command may have run, and whether Redis is unusable.
var kinds = map[string]struct{ mayHaveRun, outage bool }{
	"timeout":       {true, true},
	"canceled":      {true, false},
	"disconnected":  {true, true},
	"unreachable":   {false, true},
	"unavailable":   {false, true},
	"pool":          {false, true},
	"closed":        {false, true},
	"denied":        {false, true},
	"loading":       {false, true},
	"readonly":      {false, true},
	"masterdown":    {false, true},
	"clusterdown":   {false, true},
	"moving":        {false, false},
	"crossslot":     {false, false},
	"noscript":      {false, true},
	"busy":          {false, true},
	"oom":           {false, true},
	"disk":          {false, true},
	"noreplicas":    {false, true},
	"clients":       {false, true},
	"misconfigured": {false, true},
	"other":         {false, false},
}

func TestKind_ClassifiesEveryError(t *testing.T) {
	seen := map[string]bool{}
	for _, test := range []struct {
		err  error
		want string
	}{
		{context.Canceled, "canceled"},
		{context.DeadlineExceeded, "timeout"},
		{&net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}, "timeout"},
		{&net.OpError{Op: "write", Err: os.ErrDeadlineExceeded}, "timeout"},
		{io.EOF, "disconnected"},
		{io.ErrUnexpectedEOF, "disconnected"},
		{&net.OpError{Op: "read", Err: syscall.ECONNRESET}, "disconnected"},
		{syscall.EPIPE, "disconnected"},
		{&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}, "unreachable"},
		{&net.OpError{Op: "dial", Err: os.ErrDeadlineExceeded}, "unreachable"},
		{&net.DNSError{Err: "no such host", Name: "redis"}, "unreachable"},
		{x509.UnknownAuthorityError{}, "unreachable"},
		{errors.New("redis: all sentinels specified in configuration are unreachable"), "unreachable"},
		{redisclient.ErrUnavailable, "unavailable"},
		{redis.ErrPoolTimeout, "pool"},
		{redis.ErrPoolExhausted, "pool"},
		{redis.ErrClosed, "closed"},
		{reply("NOAUTH Authentication required."), "denied"},
		{reply("WRONGPASS invalid username-password pair or user is disabled."), "denied"},
		{reply("NOPERM this user has no permissions to run the 'evalsha' command"), "denied"},
		{reply("ERR Protocol error: unauthenticated bulk length"), "denied"},
		{reply("ERR The user executing the script can't run this command or subcommand script: x, on @user_script:1."), "denied"},
		{reply("ERR ACL failure in script: User weir has no permissions to run the 'set' command script: x, on @user_script:1."), "denied"},
		{reply("LOADING Redis is loading the dataset in memory"), "loading"},
		{reply("READONLY You can't write against a read only replica."), "readonly"},
		{reply("ERR Error running script (call to f_x): @user_script:1: -READONLY You can't write against a read only replica."), "readonly"},
		{reply("MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'."), "masterdown"},
		{reply("CLUSTERDOWN Hash slot not served"), "clusterdown"},
		{reply("MOVED 3999 127.0.0.1:6381"), "moving"},
		{reply("ASK 3999 127.0.0.1:6381"), "moving"},
		{reply("TRYAGAIN Multiple keys request during rehashing of slot"), "moving"},
		{reply("CROSSSLOT Keys in request don't hash to the same slot"), "crossslot"},
		{reply("NOSCRIPT No matching script. Please use EVAL."), "noscript"},
		{reply("BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE."), "busy"},
		{reply("OOM command not allowed when used memory > 'maxmemory'."), "oom"},
		{reply("ERR OOM command not allowed when used memory > 'maxmemory'. script: x, on @user_script:1."), "oom"},
		{reply("ERR Error running script (call to f_x): @user_script:1: -OOM command not allowed when used memory > 'maxmemory'."), "oom"},
		{reply("MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk."), "disk"},
		{reply("NOREPLICAS Not enough good replicas to write."), "noreplicas"},
		{reply("ERR max number of clients reached"), "clients"},
		{reply("ERR max number of clients reached + cluster connections"), "clients"},
		{reply("ERR DB index is out of range"), "misconfigured"},
		{reply("ERR invalid DB index"), "misconfigured"},
		{reply("ERR SELECT is not allowed in cluster mode"), "misconfigured"},
		{reply("ERR This instance has cluster support disabled"), "misconfigured"},
		{reply("ERR unknown command 'EVALSHA', with args beginning with: "), "misconfigured"},
		{reply("ERR Unknown Redis command called from script script: x, on @user_script:1."), "misconfigured"},
		{reply("DENIED Redis is running in protected mode because protected mode is enabled"), "denied"},
		{fmt.Errorf("redis: all sentinels specified in configuration are unreachable: %w", errors.Join(redis.Nil, redis.Nil)), "unreachable"},
		{redis.Nil, "other"},
		{redisclient.Unclear(errors.New("got 0 numbers")), "other"},
		{redisclient.NoConnection(context.DeadlineExceeded), "unreachable"},
		{reply("WRONGTYPE Operation against a key holding the wrong kind of value"), "other"},
		{reply("ERR value is not an integer or out of range"), "other"},
	} {
		seen[test.want] = true
		for _, err := range []error{test.err, fmt.Errorf("spend: %w", test.err), redisclient.WithKind(test.err)} {
			if got := redisclient.Kind(err); got != test.want {
				t.Errorf("kind %q of %v, want %q", got, err, test.want)
			}
			if want := kinds[test.want]; redisclient.MayHaveRun(err) != want.mayHaveRun || redisclient.IsOutage(err) != want.outage {
				t.Errorf("%v: it may have run: %t, it is an outage: %t; want %+v", err, redisclient.MayHaveRun(err), redisclient.IsOutage(err), want)
			}
		}
		wantKind(t, redisclient.WithKind(test.err), test.want)
	}
	for kind := range kinds {
		if !seen[kind] {
			t.Errorf("no error of kind %s", kind)
		}
	}
	for kind := range kinds {
		if want := kind == "moving" || kind == "crossslot" || kind == "other"; redisclient.IsUnclear(errorOfKind(kind)) != want {
			t.Errorf("an error of the kind %s is unclear: %t, want %t", kind, !want, want)
		}
	}
	if redisclient.MayHaveRun(nil) || redisclient.IsOutage(nil) {
		t.Error("no error is an outage, or may have run")
	}
}

// errorOfKind returns an error of some kinds: of those that an error reply has.
func errorOfKind(kind string) error {
	for _, text := range []string{"MOVED 1 a:1", "CROSSSLOT", "ERR what", "OOM", "LOADING", "NOPERM", "BUSY", "READONLY"} {
		if redisclient.Kind(reply(text)) == kind {
			return reply(text)
		}
	}
	return nil
}
