package controlplane

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/weir-dev/weir/limiter/redisclient"
)

// Exchange connects the operator and the replicas of one limiter through Redis: rule sets in one direction, heartbeats in
// the other. It is safe for concurrent use.
//
// Its keys, for the prefix "weir:" and the limiter "weir-system/default":
//
//	weir:rules:weir-system/default:current         string: revision of the active Set
//	weir:rules:weir-system/default:set:<revision>  string: the manifest of that Set, or the whole Set for older limiters
//	weir:rules:weir-system/default:shard:<hash>    string: the shards of Sets, by their content
//	weir:rules:weir-system/default:superseded      list: revisions of Sets, oldest first: whatever has no expiry belongs to one of them
//	weir:rules:weir-system/default                 channel: the revision, whenever the pointer changes
//	weir:replicas:weir-system/default              hash: replica → {"revision","time","mode",…}
//
// The keys have no hash tag, so on Redis Cluster each can be in another slot. Therefore no command and no script here
// uses two of them, and the order of writes keeps readers safe: shards are stored before the manifest, and a Set before the pointer names it.
type Exchange struct {
	client       *redisclient.Client
	prefix       string                      // of every key: "weir:"
	limiter      string                      // "namespace/name"
	confirm      func(context.Context) error // see BeforeReplacing
	heartbeat    redisclient.Script
	listReplicas redisclient.Script
	// listSuperseded reads the list of revisions.
	listSuperseded redisclient.Script
	// verifyInterval and completeInterval are constants, except in tests.
	verifyInterval, completeInterval time.Duration

	published atomic.Pointer[published] // nil before the first Publish, and while one is in progress
	recent    recentSets
	decided   decidedText             // of the last heartbeat
	stored    atomic.Pointer[version] // the Set that the pointer named when its sequence was read or written; nil if unknown
}

// version is a revision of the rules, and the sequence of its Set, or 0 if it has no sequence.
type version struct {
	revision string
	sequence int64
}

// NewExchange returns the Exchange of limiter ("namespace/name") under prefix ("weir:").
func NewExchange(client *redisclient.Client, prefix, limiter string) *Exchange {
	return &Exchange{
		client: client, prefix: prefix, limiter: limiter,
		heartbeat: newHeartbeatScript(), listReplicas: newReplicasScript(), listSuperseded: newSupersededScript(),
		verifyInterval: verifyInterval, completeInterval: completeInterval,
	}
}

// BeforeReplacing makes Publish call confirm immediately before it replaces another rule set. If confirm fails, Publish changes nothing: a
// paused operator that continues must not replace what its successor has published.
func (e *Exchange) BeforeReplacing(confirm func(context.Context) error) { e.confirm = confirm }

// Scripts returns every script of this package, for [redisclient.Client.LoadScripts].
func Scripts() []redisclient.Script {
	return []redisclient.Script{newHeartbeatScript(), newReplicasScript(), newSupersededScript()}
}

// Channel is the name of the channel of revisions. The keys of Sets begin with it, too.
func (e *Exchange) Channel() string { return e.prefix + "rules:" + e.limiter }

// ReplicaKeys returns the key that the replicas of the limiter read, and the one that they also write.
func (e *Exchange) ReplicaKeys() (reads, writes string) { return e.currentKey(), e.replicasKey() }

func (e *Exchange) currentKey() string            { return e.Channel() + ":current" }
func (e *Exchange) supersededKey() string         { return e.Channel() + ":superseded" }
func (e *Exchange) setKey(revision string) string { return e.Channel() + ":set:" + revision }
func (e *Exchange) shardKey(hash string) string   { return e.Channel() + ":shard:" + hash }
func (e *Exchange) replicasKey() string           { return e.prefix + "replicas:" + e.limiter }
