package redisclient

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"syscall"

	"github.com/redis/go-redis/v9"

	"github.com/weir-dev/weir/limiter"
)

// The kinds of errors, which are also the values of metric labels. After KindTimeout, KindCanceled and KindDisconnected
// a command may have run; after any other kind it did not.
const (
	KindTimeout       = "timeout"       // no reply in time
	KindCanceled      = "canceled"      // the caller canceled the call
	KindDisconnected  = "disconnected"  // the connection broke before the reply
	KindUnreachable   = "unreachable"   // no connection: nothing listens, no Sentinel knows the primary, or TLS fails
	KindUnavailable   = "unavailable"   // not sent: the circuit breaker is open
	KindPool          = "pool"          // all connections are in use
	KindClosed        = "closed"        // the Client is closed
	KindDenied        = "denied"        // wrong or missing credentials, or no permission for a command or key
	KindCredentials   = "credentials"   // no valid credentials: a file cannot be read, or the provider of tokens is unavailable
	KindLoading       = "loading"       // Redis is loading its data from disk
	KindReadOnly      = "readonly"      // the server is a replica, for example the old primary after a failover
	KindMasterDown    = "masterdown"    // the server is a replica without a connection to its primary
	KindClusterDown   = "clusterdown"   // no node serves the slot
	KindMoving        = "moving"        // the slot is moving to another node
	KindCrossSlot     = "crossslot"     // the keys of a script are in different slots
	KindNoScript      = "noscript"      // the node does not have the script, and cannot load it
	KindBusy          = "busy"          // another script has been running for too long
	KindOOM           = "oom"           // out of memory
	KindDisk          = "disk"          // Redis rejects writes because it cannot save to disk
	KindReplicas      = "noreplicas"    // fewer replicas than min-replicas-to-write
	KindClients       = "clients"       // Redis accepts no more connections
	KindMisconfigured = "misconfigured" // no such database, not a cluster, not a Sentinel, or a required command is missing
	KindOther         = "other"         // any other error
)

// ErrUnavailable is the error of calls that are not sent because the circuit breaker of their Redis is open. It is [limiter.ErrNotSent].
var ErrUnavailable error = &kindError{
	error: fmt.Errorf("%w: Redis is unavailable and has not answered a probe yet", limiter.ErrNotSent), kind: KindUnavailable,
}

// Kind classifies err in one word, for metrics and for callers that handle kinds differently. It is "" for nil.
func Kind(err error) string { return kindOf(err) }

// MayHaveRun reports whether a command that failed with err may have run nevertheless.
func MayHaveRun(err error) bool {
	switch kindOf(err) {
	case KindTimeout, KindCanceled, KindDisconnected:
		return true
	default:
		return false
	}
}

// IsOutage reports whether err shows that Redis is unusable, and not only that one command failed.
func IsOutage(err error) bool {
	switch kindOf(err) {
	case "", KindCanceled, KindMoving, KindCrossSlot, KindOther:
		return false
	default:
		return true
	}
}

// IsUnclear reports whether err shows only that a command failed. It shows that Redis is unusable if all commands fail with such errors for some time.
func IsUnclear(err error) bool {
	switch kindOf(err) {
	case KindMoving, KindCrossSlot, KindOther:
		return true
	default:
		return false
	}
}

// Unclear is err, which is about a reply that is not one of the command, as an error of [KindOther].
func Unclear(err error) error { return &kindError{error: err, kind: KindOther} }

// NoConnection is err, the error of a call that got no connection in time and was not sent, while Redis answered other calls.
func NoConnection(err error) error {
	return &kindError{error: fmt.Errorf("no connection in time, although Redis answers other calls: %w", err), kind: KindUnreachable}
}

// kindError is an error that reports its kind to packages that do not import this one.
type kindError struct {
	error

	kind string
}

// Kind is that of [Kind].
func (e *kindError) Kind() string { return e.kind }

func (e *kindError) Unwrap() error { return e.error }

// WithKind adds a method Kind to err, which returns its kind. It returns nil for nil.
func WithKind(err error) error {
	if err == nil {
		return nil
	}
	var known *kindError
	if !errors.As(err, &known) && isUnknownPrimary(err) {
		err = fmt.Errorf("no Sentinel knows a primary of this name: %w", err)
	}
	return &kindError{error: err, kind: kindOf(err)}
}

// isUnknownPrimary reports whether Sentinels answered that they monitor no primary of the name. go-redis calls them unreachable.
func isUnknownPrimary(err error) bool {
	return errors.Is(err, redis.Nil) && strings.Contains(err.Error(), "all sentinels specified in configuration are unreachable")
}

func kindOf(err error) string {
	var kindErr *kindError
	var reply redis.Error
	switch {
	case err == nil:
		return ""
	case errors.As(err, &kindErr):
		return kindErr.kind
	case isUnknownPrimary(err):
		return KindUnreachable
	case errors.As(err, &reply):
		return kindOfReply(reply.Error())
	default:
		return kindOfConnection(err)
	}
}

func kindOfConnection(err error) string {
	var network net.Error
	var operation *net.OpError
	var system syscall.Errno
	switch {
	case errors.Is(err, context.Canceled):
		return KindCanceled
	case errors.Is(err, redis.ErrPoolTimeout), errors.Is(err, redis.ErrPoolExhausted):
		return KindPool
	case errors.Is(err, redis.ErrClosed):
		return KindClosed
	case errors.As(err, &operation) && operation.Op == "dial":
		return KindUnreachable
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &network) && network.Timeout():
		return KindTimeout
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.As(err, &operation), errors.As(err, &system):
		return KindDisconnected
	default:
		return KindUnreachable // names that do not resolve, untrusted certificates, Sentinels that know no primary
	}
}

// misconfiguredReplies are parts of error replies that show that the server is not what the options describe.
func misconfiguredReplies() []string {
	return []string{
		"DB index is out of range", "invalid DB index", "SELECT is not allowed in cluster mode", "cluster support disabled",
		"unknown command", "Unknown Redis command",
	}
}

// deniedReplies are parts of error replies that show missing permissions, but do not begin with NOPERM.
func deniedReplies() []string {
	return []string{
		"unauthenticated",                   // ERR Protocol error: unauthenticated bulk length
		"The user executing the script can", // ERR The user executing the script can't run this command or subcommand
		"ACL failure in script",             // the same from Redis 7.2 on
	}
}

// kindOfReply classifies an error reply by its first word. If a command in a script failed, it is the first word of the
// error of that command.
func kindOfReply(reply string) string {
	switch {
	case strings.HasPrefix(reply, "ERR max number of clients reached"):
		return KindClients
	case slices.ContainsFunc(deniedReplies(), func(part string) bool { return strings.Contains(reply, part) }):
		return KindDenied
	case slices.ContainsFunc(misconfiguredReplies(), func(part string) bool { return strings.Contains(reply, part) }):
		return KindMisconfigured
	}
	// Before Redis 7: ERR Error running script (…): @user_script:1: -OOM command not allowed …
	if _, inner, found := strings.Cut(reply, ": -"); found {
		reply = inner
	}
	word, _, _ := strings.Cut(strings.TrimPrefix(reply, "ERR "), " ")
	switch word {
	case "LOADING":
		return KindLoading
	case "READONLY":
		return KindReadOnly
	case "MASTERDOWN":
		return KindMasterDown
	case "CLUSTERDOWN":
		return KindClusterDown
	case "MOVED", "ASK", "TRYAGAIN":
		return KindMoving
	case "CROSSSLOT":
		return KindCrossSlot
	case "NOSCRIPT":
		return KindNoScript
	case "BUSY":
		return KindBusy
	case "OOM":
		return KindOOM
	case "MISCONF":
		return KindDisk
	case "NOREPLICAS":
		return KindReplicas
	case "NOAUTH", "WRONGPASS", "NOPERM", "DENIED": // the last one in protected mode
		return KindDenied
	default:
		return KindOther
	}
}
