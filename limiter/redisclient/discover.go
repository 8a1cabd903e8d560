package redisclient

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-dev/weir/limiter/redisclient/proxied"
)

// Server describes the Redis that a [Client] uses. A field is empty or 0 if the server does not report it, or if the user must not read it.
type Server struct {
	Product string // such as Redis, Valkey or Dragonfly
	Version string // of the oldest primary
	// Mode is what the servers are. For a primary behind Sentinels it is Sentinel.
	Mode Mode
	// Corrected is true if the options name mode Standalone, and the server is a node of a Redis Cluster.
	Corrected bool
	Primaries int
	Replicas  int // of all primaries
	Databases int // that a client can select
	// MaxMemory and UsedMemory are those of the fullest primary, in bytes. MaxMemory is 0 without a bound.
	MaxMemory, UsedMemory int64
	// Eviction is the setting maxmemory-policy, such as noeviction.
	Eviction string
	// Persistence is RDB, AOF, "RDB and AOF", or PersistenceOff.
	Persistence string
	// RESP3 is true if the server has the command HELLO, and so version 3 of the protocol. Weir uses version 2.
	RESP3 bool
}

// PersistenceOff is the Persistence of a server that does not save its data.
const PersistenceOff = "off"

// String describes the server in a few words, such as "Redis 7.0.15, Cluster with 3 primaries".
func (s *Server) String() string {
	text := strings.TrimSpace(s.Product + " " + s.Version)
	if text == "" {
		text = "a server that reports no version"
	}
	text += ", " + string(s.Mode)
	switch {
	case s.Mode != ModeCluster:
		return text
	case s.Primaries == 1:
		return text + " with one primary"
	default:
		return fmt.Sprintf("%s with %d primaries", text, s.Primaries)
	}
}

// SetupError is the error of [Client.Discover] for a Redis that cannot work with the options: waiting does not help. Its text describes what to change.
type SetupError struct {
	Advice string // a sentence that names the address, the problem and the way out
	Cause  error  // nil if a successful reply shows the problem
}

// Error implements error.
func (e *SetupError) Error() string {
	if e.Cause == nil {
		return e.Advice
	}
	return e.Advice + " (" + e.Cause.Error() + ")"
}

func (e *SetupError) Unwrap() error { return e.Cause }

// Kind is that of [Kind].
func (e *SetupError) Kind() string {
	if e.Cause == nil {
		return KindMisconfigured
	}
	return kindOf(e.Cause)
}

// The pauses between discoveries that errors of commands cause.
const rediscoverPause = 10 * time.Second

// discovery is the state of [Client.Discover].
type discovery struct {
	succeeded atomic.Bool
	moved     atomic.Bool // a command that needed another node was rejected
	probing   atomic.Bool // replies MOVED are expected

	mu   sync.Mutex
	last time.Time // of a discovery that a reply caused
}

// Discover asks the servers what they are. A Client of one server becomes a client of the Redis Cluster whose node the server is, if the nodes
// of the cluster are reachable: then each command goes to the node that has its keys. Commands before that can fail.
//
// The error is a [*SetupError] if the options do not fit the servers. Any other error shows that Redis is unavailable.
func (c *Client) Discover(ctx context.Context) (Server, error) {
	found, err := c.discover(ctx)
	if err != nil {
		return Server{}, WithKind(c.Explain(ctx, err))
	}
	c.discovery.succeeded.Store(true)
	return found, nil
}

func (c *Client) discover(ctx context.Context) (Server, error) {
	single, ok := c.Redis().(*redis.Client)
	if !ok {
		return c.survey(ctx)
	}
	one, err := describe(ctx, single)
	switch {
	case err != nil:
		return Server{}, err
	case one.isSentinel():
		return Server{}, c.sentinelError(c.options.Addresses[0], one.info)
	case one.isCluster() && c.options.Mode == ModeStandalone:
		if err := c.becomeCluster(ctx, single); err != nil {
			return Server{}, err
		}
		return c.survey(ctx)
	case one.isReplica() && c.options.Mode == ModeStandalone:
		return Server{}, replicaError(c.options.Addresses[0], one.primary())
	}
	return c.survey(ctx)
}

// survey describes all primaries.
func (c *Client) survey(ctx context.Context) (Server, error) {
	var mu sync.Mutex
	found := Server{Mode: c.options.Mode}
	if _, ok := c.Cluster(); ok {
		found.Mode, found.Corrected = ModeCluster, c.options.Mode != ModeCluster
	}
	err := c.ForEachPrimary(ctx, func(ctx context.Context, primary *redis.Client) error {
		one, err := describe(ctx, primary)
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		found.add(one)
		return nil
	})
	return found, err
}

// description is what one server reports about itself.
type description struct {
	hello map[string]string // without HELLO, it is empty
	info  map[string]string // without permission for INFO, it is empty
	// The settings of these names; readsConfig is false if CONFIG is forbidden or unknown.
	readsConfig     bool
	databases, save string
}

// describe asks one server. Replies that are errors count as no reply, except those that show that the server is unusable.
func describe(ctx context.Context, server *redis.Client) (description, error) {
	one := description{hello: map[string]string{}, info: map[string]string{}}
	pipe := server.Pipeline()
	ping, hello, info := pipe.Ping(ctx), pipe.Do(ctx, "hello"), pipe.Info(ctx)
	databases, save := pipe.Do(ctx, "config", "get", "databases"), pipe.Do(ctx, "config", "get", "save")
	if err := Execute(ctx, pipe); err != nil {
		return one, err
	}
	for _, cmd := range []redis.Cmder{ping, hello, info, databases, save} {
		switch kindOf(cmd.Err()) {
		case "", KindMisconfigured, KindOther: // a command that the server does not have, or a proxy that does not forward it
		case KindDenied:
			if cmd == ping || !strings.HasPrefix(cmd.Err().Error(), "NOPERM") {
				return one, cmd.Err()
			}
		default:
			return one, cmd.Err()
		}
	}
	if fields, err := hello.Slice(); err == nil {
		for i := 0; i+1 < len(fields); i += 2 {
			one.hello[fmt.Sprint(fields[i])] = fmt.Sprint(fields[i+1])
		}
	}
	one.info = infoFields(info.Val())
	one.databases, one.readsConfig = Setting(databases)
	one.save, _ = Setting(save)
	return one, nil
}

// Execute sends a pipeline. The error is that of the pipeline as a whole: go-redis does not set the error of a connection whose handshake Redis
// rejects as that of the commands. Read the error of each command otherwise.
func Execute(ctx context.Context, pipe redis.Pipeliner) error {
	cmds, err := pipe.Exec(ctx)
	if slices.ContainsFunc(cmds, func(cmd redis.Cmder) bool { return cmd.Err() != nil }) {
		err = nil
	}
	return err
}

// Setting returns the value in a reply of CONFIG GET.
func Setting(reply *redis.Cmd) (value string, ok bool) {
	pair, err := reply.StringSlice()
	if err != nil || len(pair) != 2 {
		return "", false
	}
	return pair[1], true
}

// mode is standalone, cluster, sentinel, or "" if the server does not report it. Forks renamed the field.
func (d description) mode() string {
	for _, mode := range []string{d.hello["mode"], d.info["redis_mode"], d.info["server_mode"], d.info["redict_mode"]} {
		if mode != "" {
			return mode
		}
	}
	return ""
}

func (d description) isSentinel() bool { return d.mode() == "sentinel" }

func (d description) isCluster() bool {
	return d.mode() == "cluster" || d.info["cluster_enabled"] == "1"
}

func (d description) isReplica() bool {
	return d.info["role"] == "slave" || d.hello["role"] == "replica" || d.hello["role"] == "slave"
}

// primary returns the address of the primary of a replica, "" if it is unknown.
func (d description) primary() string {
	if d.info["master_host"] == "" {
		return ""
	}
	return net.JoinHostPort(d.info["master_host"], d.info["master_port"])
}

// product returns the name of the program. Forks report the version of Redis with which they are compatible, and their own in another field.
func (d description) product() (name, version string) {
	for _, fork := range []struct{ field, name string }{
		{"valkey_version", "Valkey"},
		{"dragonfly_version", "Dragonfly"},
		{"garnet_version", "Garnet"},
		{"kvrocks_version", "Kvrocks"},
		{"redict_version", "Redict"},
	} {
		if version := d.info[fork.field]; version != "" {
			return fork.name, version
		}
	}
	version = d.info["redis_version"]
	if version == "" {
		version = d.hello["version"]
	}
	switch {
	case strings.Contains(d.info["executable"], "keydb"):
		return "KeyDB", version
	case d.hello["server"] == "valkey":
		return "Valkey", version
	case version != "":
		return "Redis", version
	default:
		return "", ""
	}
}

// add adds one primary.
func (s *Server) add(one description) {
	number := func(text string) int64 {
		n, _ := strconv.ParseInt(text, 10, 64)
		return n
	}
	s.Primaries++
	if product, version := one.product(); s.Version == "" || older(version, s.Version) {
		s.Product, s.Version = product, version
	}
	s.Replicas += int(number(one.info["connected_slaves"]))
	s.Databases = max(s.Databases, int(number(one.databases)))
	used, most := number(one.info["used_memory"]), number(one.info["maxmemory"])
	if s.Primaries == 1 || float64(used)*float64(s.MaxMemory) > float64(s.UsedMemory)*float64(most) || most == 0 {
		s.UsedMemory, s.MaxMemory = used, most
	}
	if policy := one.info["maxmemory_policy"]; s.Eviction == "" || policy != "noeviction" {
		s.Eviction = policy
	}
	if persistence := one.persistence(); persistence != "" {
		s.Persistence = persistence
	}
	s.RESP3 = len(one.hello) > 0
}

// persistence describes whether the server saves its data. Without permission for CONFIG, snapshots count if there was one.
func (d description) persistence() string {
	if d.info["aof_enabled"] == "" {
		return ""
	}
	aof, rdb := d.info["aof_enabled"] == "1", d.save != ""
	if !d.readsConfig {
		rdb = d.info["rdb_saves"] != "" && d.info["rdb_saves"] != "0"
	}
	switch {
	case aof && rdb:
		return "RDB and AOF"
	case aof:
		return "AOF"
	case rdb:
		return "RDB"
	default:
		return PersistenceOff
	}
}

// becomeCluster replaces the connections to one node by those to its cluster. It does so only if the node returns the nodes of its cluster, and
// each primary replies. A proxy in front of a cluster can report that it is one, with or without the addresses of the nodes.
func (c *Client) becomeCluster(ctx context.Context, single *redis.Client) error {
	c.switching.Lock()
	defer c.switching.Unlock()
	if _, ok := c.Cluster(); ok {
		return nil
	}
	address := c.options.Addresses[0]
	if c.options.Database != 0 {
		return databaseError(address, c.options.Database, nil)
	}
	slotRanges, err := single.Do(ctx, "cluster", "slots").Slice() // as the client of a cluster does
	switch kindOf(err) {
	case "":
	case KindDenied:
		return &SetupError{address + " is a node of a Redis Cluster: grant the user +cluster|slots and +asking", err}
	case KindMisconfigured, KindOther: // a proxy for a cluster
		return nil
	default:
		return err
	}
	if len(slotRanges) == 0 {
		return &SetupError{Advice: address + " is a node of a Redis Cluster without slots: create the cluster, for example with redis-cli --cluster create"}
	}
	if !c.discovery.moved.Load() {
		c.discovery.probing.Store(true)
		isProxy := proxied.ExecutesAllSlots(ctx, single, slotRanges)
		c.discovery.probing.Store(false)
		if isProxy {
			return nil
		}
	}
	cluster := c.newPool(ModeCluster)
	rdb, ok := cluster.rdb.(*redis.ClusterClient)
	if !ok {
		return fmt.Errorf("unsupported Redis client %T", cluster.rdb)
	}
	err = rdb.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error {
		if err := node.Ping(ctx).Err(); err != nil {
			return fmt.Errorf("node %s: %w", node.Options().Addr, err)
		}
		return nil
	})
	if err != nil {
		return &SetupError{address + " is a node of a Redis Cluster, and an address that it announces for its nodes is not usable from here: " +
			"check cluster-announce-ip, cluster-preferred-endpoint-type, firewalls and NetworkPolicies", errors.Join(err, rdb.Close())}
	}
	c.replace(cluster)
	return nil
}

// movedHook starts a discovery when a reply shows that the one server is a node of a cluster: for example, Redis was unavailable before, or the
// server was replaced.
type movedHook struct{ client *Client }

// DialHook implements redis.Hook.
func (movedHook) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook implements redis.Hook.
func (h movedHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		h.client.rediscoverAfter(err)
		return err
	}
}

// ProcessPipelineHook implements redis.Hook.
func (h movedHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		err := next(ctx, cmds)
		for _, cmd := range cmds {
			h.client.rediscoverAfter(cmd.Err())
		}
		return err
	}
}

// rediscoverAfter calls Discover in the background after an error reply of a node of a cluster, at most every rediscoverPause.
func (c *Client) rediscoverAfter(err error) {
	if err == nil {
		return
	}
	var reply redis.Error
	if !errors.As(err, &reply) {
		return
	}
	switch kindOfReply(reply.Error()) {
	case KindMoving:
		if c.discovery.probing.Load() {
			return
		}
		c.discovery.moved.Store(true)
	case KindCrossSlot:
	default:
		return
	}
	d := &c.discovery
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, ok := c.Cluster(); ok || (!d.last.IsZero() && time.Since(d.last) < rediscoverPause) {
		return
	}
	d.last = time.Now()
	c.background.start(func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, rediscoverPause)
		defer cancel()
		_, _ = c.Discover(ctx) // the errors of commands are reported
	})
}
