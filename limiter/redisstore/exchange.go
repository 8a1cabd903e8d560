package redisstore

import "time"

// Exchange is where the operator and the replicas of one limiter meet in Redis: rule sets go one way, heartbeats the
// other. It is safe for concurrent use.
//
// Its keys, for the prefix "weir:" and the limiter "weir-system/default":
//
//	weir:rules:weir-system/default:current         string: revision of the Set in force
//	weir:rules:weir-system/default:set:<revision>  string: that Set, encoded
//	weir:rules:weir-system/default:superseded      list: revisions that were in force before, oldest first, while their Sets last
//	weir:rules:weir-system/default                 channel: a revision, whenever the pointer moves
//	weir:replicas:weir-system/default              hash: replica → {"revision","time","mode","since"}
//
// They carry no hash tag, so on Redis Cluster each may lie in another slot. Therefore no command and no script here
// touches two of them, and their order of writing keeps readers safe: a Set is there before the pointer names it.
type Exchange struct {
	client  *Client
	prefix  string // of every key: "weir:"
	limiter string // "namespace/name"
	beat    script
	list    script
}

// NewExchange returns the meeting point of limiter ("namespace/name") under prefix ("weir:").
func NewExchange(client *Client, prefix, limiter string) *Exchange {
	return &Exchange{
		client:  client,
		prefix:  prefix,
		limiter: limiter,
		beat:    newScript("beat", beatSource),
		list:    newScript("replicas", replicasSource),
	}
}

// Channel names the channel of revisions; it is also what the keys of the Sets begin with.
func (e *Exchange) Channel() string { return e.prefix + "rules:" + e.limiter }

func (e *Exchange) currentKey() string            { return e.Channel() + ":current" }
func (e *Exchange) supersededKey() string         { return e.Channel() + ":superseded" }
func (e *Exchange) setKey(revision string) string { return e.Channel() + ":set:" + revision }
func (e *Exchange) replicasKey() string           { return e.prefix + "replicas:" + e.limiter }

// The times of heartbeats.
const (
	// BeatInterval is how often a replica beats.
	BeatInterval = time.Second
	// aliveFor is how long a replica counts as alive after a beat: three intervals, and slack for a slow Redis.
	aliveFor = 5 * BeatInterval
	// forgottenAfter is how long the entry of a silent replica is kept.
	forgottenAfter = 10 * BeatInterval
)
