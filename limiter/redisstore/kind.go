package redisstore

import (
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"syscall"

	"github.com/redis/go-redis/v9"
)

// The kinds of errors, as metrics tell them. After timeout, canceled and disconnected a charge may have been counted;
// after any other it was not.
const (
	kindTimeout      = "timeout"      // no answer in time
	kindCanceled     = "canceled"     // the caller went away
	kindDisconnected = "disconnected" // the connection broke before the answer
	kindUnreachable  = "unreachable"  // no connection: nobody listens, no Sentinel knows a primary, TLS fails
	kindAway         = "away"         // not asked: it has failed and not answered a probe since, see Guard
	kindPool         = "pool"         // all connections are in use
	kindClosed       = "closed"       // the Client is closed
	kindDenied       = "denied"       // wrong or missing credentials, or not the right for a command or key
	kindLoading      = "loading"      // Redis reads its data from disk
	kindReadOnly     = "readonly"     // a replica, as the old primary after a failover
	kindMasterDown   = "masterdown"   // a replica that has lost its primary
	kindClusterDown  = "clusterdown"  // no node serves the slot
	kindMoving       = "moving"       // the slot is on its way to another node
	kindCrossSlot    = "crossslot"    // keys of several slots in one script
	kindNoScript     = "noscript"     // the node does not know the script, and may not be taught
	kindBusy         = "busy"         // another script runs for too long
	kindOOM          = "oom"          // out of memory
	kindDisk         = "disk"         // Redis writes no more since it cannot save
	kindReplicas     = "noreplicas"   // fewer replicas than Redis is told to insist on
	kindClients      = "clients"      // Redis takes no more connections
	kindUnfit        = "unfit"        // no such database, no cluster, no Sentinel, or without a command that Weir needs
	kindOther        = "other"        // anything else, as a counter that is none
)

// Kind is a word for what went wrong, for metrics and for who decides what to do; "" if nothing did.
func Kind(err error) string { return kindOf(err) }

// kinded is an error that tells its kind to who does not know Redis.
type kinded struct {
	error

	kind string
}

// Kind is that of [Kind].
func (k *kinded) Kind() string { return k.kind }

func (k *kinded) Unwrap() error { return k.error }

// withKind makes err tell its kind.
func withKind(err error) error {
	if err == nil {
		return nil
	}
	return &kinded{error: err, kind: kindOf(err)}
}

func kindOf(err error) string {
	var known *kinded
	var refused redis.Error
	switch {
	case err == nil:
		return ""
	case errors.As(err, &known):
		return known.kind
	case errors.As(err, &refused):
		return kindOfReply(refused.Error())
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
		return kindCanceled
	case errors.Is(err, errAwayCause):
		return kindAway
	case errors.Is(err, redis.ErrPoolTimeout), errors.Is(err, redis.ErrPoolExhausted):
		return kindPool
	case errors.Is(err, redis.ErrClosed):
		return kindClosed
	case errors.As(err, &operation) && operation.Op == "dial":
		return kindUnreachable
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &network) && network.Timeout():
		return kindTimeout
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.As(err, &operation), errors.As(err, &system):
		return kindDisconnected
	default:
		return kindUnreachable // names that do not resolve, certificates that are not trusted, Sentinels that know nobody
	}
}

// unfit are signs of a server that is not what it was taken for.
func unfit() []string {
	return []string{
		"DB index is out of range", "invalid DB index", "SELECT is not allowed in cluster mode", "cluster support disabled",
		"unknown command", "Unknown Redis command",
	}
}

// kindOfReply reads an error reply: its first word, or that of the command in a script that it is about.
func kindOfReply(reply string) string {
	switch {
	case strings.HasPrefix(reply, "ERR max number of clients reached"):
		return kindClients
	case strings.Contains(reply, "unauthenticated"): // ERR Protocol error: unauthenticated bulk length
		return kindDenied
	case slices.ContainsFunc(unfit(), func(sign string) bool { return strings.Contains(reply, sign) }):
		return kindUnfit
	}
	// Before Redis 7: ERR Error running script (…): @user_script:1: -OOM command not allowed …
	if _, inner, found := strings.Cut(reply, ": -"); found {
		reply = inner
	}
	word, _, _ := strings.Cut(strings.TrimPrefix(reply, "ERR "), " ")
	switch word {
	case "LOADING":
		return kindLoading
	case "READONLY":
		return kindReadOnly
	case "MASTERDOWN":
		return kindMasterDown
	case "CLUSTERDOWN":
		return kindClusterDown
	case "MOVED", "ASK", "TRYAGAIN":
		return kindMoving
	case "CROSSSLOT":
		return kindCrossSlot
	case "NOSCRIPT":
		return kindNoScript
	case "BUSY":
		return kindBusy
	case "OOM":
		return kindOOM
	case "MISCONF":
		return kindDisk
	case "NOREPLICAS":
		return kindReplicas
	case "NOAUTH", "WRONGPASS", "NOPERM":
		return kindDenied
	default:
		return kindOther
	}
}
