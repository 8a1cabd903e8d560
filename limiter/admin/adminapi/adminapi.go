// Package adminapi has types of the admin endpoint of a limiter that other programs use: the requests that change something, which the operator forwards
// and records, and the report about Redis.
package adminapi

import "time"

// BypassRequest lets an identifier, or all, pass a policy for some time, or blocks it.
type BypassRequest struct {
	Policy string `json:"policy"`
	// Identifier as in [ResetRequest]. If AllIdentifiers is true it is empty.
	Identifier     string `json:"identifier,omitempty"`
	AllIdentifiers bool   `json:"allIdentifiers,omitempty"`
	// Blocks is true if the policy denies the requests, false if it lets them pass uncounted.
	Blocks bool `json:"blocks,omitempty"`
	// Seconds until the bypass expires, at most 24 hours.
	Seconds int64 `json:"seconds"`
	// Reason is logged with the name of the caller, and listed.
	Reason string `json:"reason"`
	// Name and CreatedAt are the same in all processes that are called. If empty, the process chooses a name, and the current time.
	Name      string     `json:"name,omitempty"`
	CreatedAt *time.Time `json:"createdAt,omitempty"`
}

// EndBypassRequest ends a bypass.
type EndBypassRequest struct {
	Name string `json:"name"`
	// Policy of the bypass. If it is that of another one, the request has no effect. It can be empty.
	Policy string `json:"policy,omitempty"`
}

// ResetRequest gives the counters of an identifier their full limits back.
type ResetRequest struct {
	// Policy whose counters are reset. If AllPolicies is true it is empty: those of all policies.
	Policy      string `json:"policy,omitempty"`
	AllPolicies bool   `json:"allPolicies,omitempty"`
	Identifier  string `json:"identifier"`
	// Reason is logged with the name of the caller.
	Reason string `json:"reason"`
	// DryRun changes nothing.
	DryRun bool `json:"dryRun,omitempty"`
	// ID of the reset. During an outage, processes with the same ID reset the counters in Redis once; without an ID, each does.
	ID string `json:"id,omitempty"`
}
