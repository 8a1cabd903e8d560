// Package endpoints completes the addresses that a Redis Cluster reports for its nodes.
package endpoints

import (
	"context"
	"fmt"
	"net"
	"strconv"

	"github.com/redis/go-redis/v9"
)

// A cluster with cluster-preferred-endpoint-type unknown-endpoint reports NULL in place of the hosts of its nodes, and MOVED with a port alone. Both
// mean the host that was queried: all nodes are behind one address. go-redis fails on NULL, and dials this machine for a port alone.

// ResolveUnknown makes the nodes of a cluster replace NULL by the host that was queried.
func ResolveUnknown(cluster *redis.ClusterClient) *redis.ClusterClient {
	cluster.OnNewNode(func(node *redis.Client) { node.AddHook(slotsHook{node.Options().Addr}) })
	return cluster
}

// slotsHook reads the reply to CLUSTER SLOTS of the node at an address.
type slotsHook struct{ address string }

// DialHook implements redis.Hook.
func (slotsHook) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessPipelineHook implements redis.Hook.
func (slotsHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// ProcessHook implements redis.Hook.
func (h slotsHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		typed, ok := cmd.(*redis.ClusterSlotsCmd)
		if !ok {
			return next(ctx, cmd)
		}
		raw := redis.NewSliceCmd(ctx, cmd.Args()...)
		err := next(ctx, raw)
		if err == nil {
			var slots []redis.ClusterSlot
			if slots, err = h.parse(raw.Val()); err == nil {
				typed.SetVal(slots)
				return nil
			}
		}
		cmd.SetErr(err)
		return err
	}
}

// parse reads a list of first slot, last slot, and for each node its host, port and ID.
func (h slotsHook) parse(reply []any) ([]redis.ClusterSlot, error) {
	asked, _, err := net.SplitHostPort(h.address)
	if err != nil {
		return nil, fmt.Errorf("address %q of a cluster node: %w", h.address, err)
	}
	slots := make([]redis.ClusterSlot, 0, len(reply))
	for _, element := range reply {
		fields, _ := element.([]any)
		if len(fields) < 2 {
			return nil, fmt.Errorf("%s: invalid reply to CLUSTER SLOTS: %v", h.address, element)
		}
		first, isFirst := fields[0].(int64)
		last, isLast := fields[1].(int64)
		slot := redis.ClusterSlot{Start: int(first), End: int(last)}
		for _, field := range fields[2:] {
			node, _ := field.([]any)
			if len(node) < 2 || !isFirst || !isLast {
				return nil, fmt.Errorf("%s: invalid reply to CLUSTER SLOTS: %v", h.address, element)
			}
			host, known := node[0].(string)
			if !known || host == "" {
				host = asked
			}
			port, _ := node[1].(int64)
			found := redis.ClusterNode{Addr: net.JoinHostPort(host, strconv.FormatInt(port, 10))}
			if len(node) > 2 {
				found.ID, _ = node[2].(string)
			}
			slot.Nodes = append(slot.Nodes, found)
		}
		slots = append(slots, slot)
	}
	return slots, nil
}
