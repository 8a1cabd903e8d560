// Package result is what a replay of recorded requests found out: plain data with a stable JSON form, for texts, reports and other programs.
//
// Fields are added, and never renamed or removed. Times are in UTC. Lists are sorted as their comments describe, so that the same input has the same
// JSON.
package result

import "time"

// Version is the version of the JSON form. It changes only if a field changes its meaning.
const Version = 1

// Result is the result of a replay.
type Result struct {
	Version int   `json:"version"`
	Input   Input `json:"input"`
	// Interrupted is true if the replay ended early. The result then describes the requests up to To.
	Interrupted bool `json:"interrupted,omitempty"`
	// From and To are the times of the first and the last request. They are zero without requests.
	From time.Time `json:"from,omitzero"`
	To   time.Time `json:"to,omitzero"`
	// Total counts the requests under all policies together.
	Total Total `json:"total"`
	// BucketSeconds is the length of the buckets of all series. Bucket i begins at SeriesStart plus i times this length.
	BucketSeconds int64     `json:"bucketSeconds"`
	SeriesStart   time.Time `json:"seriesStart,omitzero"`
	// Series has all requests over time: Requests that were decided, and Denied ones of them.
	Series []Cell `json:"series"`
	// Policies are sorted by name. A policy with several rates has one entry for each.
	Policies []Policy `json:"policies"`
	// Difference is set if the requests were also decided under other policies, those before a change.
	Difference *Difference `json:"difference,omitempty"`
	// Proposals are policies for axes that no policy limits.
	Proposals []Proposal `json:"proposals,omitempty"`
	// Notes describe what a reader must know to trust the figures, one sentence or two each.
	Notes []string `json:"notes,omitempty"`
}

// Input describes the lines that were read.
type Input struct {
	Files  []File `json:"files"`
	Lines  int64  `json:"lines"`
	Bytes  int64  `json:"bytes"`
	Bad    int64  `json:"bad"`              // lines that could not be read
	Errors []Bad  `json:"errors,omitempty"` // the first bad lines, in the order in which they were read
	// Excluded requests were denied when they were recorded, and are not replayed.
	Excluded int64 `json:"excluded,omitempty"`
	// Late requests were recorded so long after others that they could not be sorted. They are replayed later than they were.
	Late int64 `json:"late,omitempty"`
	// Skipped lines are valid, and no requests to replay. They are sorted by the reason.
	Skipped []Skipped `json:"skipped,omitempty"`
}

// File is a file that was read.
type File struct {
	Name   string `json:"name"`
	Format string `json:"format"`
}

// Bad is a line that could not be read.
type Bad struct {
	File   string `json:"file"`
	Line   int    `json:"line"`
	Reason string `json:"reason"`
	Text   string `json:"text"` // its start
}

// Skipped counts lines that are no requests to replay.
type Skipped struct {
	Reason string `json:"reason"`
	Lines  int64  `json:"lines"`
}

// Total counts requests.
type Total struct {
	Requests int64 `json:"requests"`
	// Matched requests are those that at least one policy counts.
	Matched int64 `json:"matched"`
	// Denied requests are those that an enforced policy denies.
	Denied int64 `json:"denied"`
	// ShadowDenied requests are those that a policy in Shadow mode would have denied, among them denied ones.
	ShadowDenied int64 `json:"shadowDenied"`
	// DeniedByAny requests are denied, or would have been by a policy in Shadow mode.
	DeniedByAny int64 `json:"deniedByAny"`
}

// Cell counts requests, for example those of a bucket of a series.
type Cell struct {
	Requests int64 `json:"requests"`
	Denied   int64 `json:"denied"`
}

// HasLimit reports whether requests of no tier have a limit that means something.
func (p *Policy) HasLimit() bool { return !p.TiersOnly && !p.Proposed }

// Policy is the result for one policy, or for one of its rates.
type Policy struct {
	// Name is "namespace/name", or "_cluster/name" for a cluster policy. ":" and the rate follow for a policy with several rates.
	Name      string `json:"name"`
	Axis      string `json:"axis"`
	Algorithm string `json:"algorithm"`
	// Limit is the units per window. Requests of tiers have the limits of their tiers. It is 0 if TiersOnly is true.
	Limit         int64 `json:"limit"`
	Burst         int64 `json:"burst,omitempty"`
	WindowSeconds int64 `json:"windowSeconds"`
	TiersOnly     bool  `json:"tiersOnly,omitempty"`
	// Proposed policies have no limit yet. Limit is then the largest possible one, which denies nothing.
	Proposed bool `json:"proposed,omitempty"`
	// Shadow policies deny nothing. Denied then counts the requests that the policy would have denied.
	Shadow bool `json:"shadow,omitempty"`
	// PerEndpoint policies have a counter for each identifier and endpoint. Identifiers then counts these counters.
	PerEndpoint bool `json:"perEndpoint,omitempty"`

	// Matched is the number of requests that the policy applied to: Allowed, Denied, Uncharged or Unlimited.
	Matched int64 `json:"matched"`
	Allowed int64 `json:"allowed"`
	Denied  int64 `json:"denied"`
	// Uncharged requests were within the limit of the policy, and not counted, because another policy denied them.
	Uncharged int64 `json:"uncharged"`
	// Unlimited requests belong to an unlimited tier. No other figure of the policy counts them.
	Unlimited int64 `json:"unlimited"`
	// MissingIdentifier requests matched and had no identifier, or an unreadable one.
	MissingIdentifier int64 `json:"missingIdentifier"`
	// FallbackIdentifier requests had no identifier of the first source of the policy, and are counted by another one, such as the address.
	FallbackIdentifier int64 `json:"fallbackIdentifier"`
	// Identifiers that the policy counted, and those of them that had at least one denial.
	Identifiers       int64 `json:"identifiers"`
	DeniedIdentifiers int64 `json:"deniedIdentifiers"`

	// PeakUse is the request after which the largest part of a limit was used; nil without requests.
	PeakUse *Use `json:"peakUse,omitempty"`
	// FirstDenial and LastDenial are nil without denials.
	FirstDenial *time.Time `json:"firstDenial,omitempty"`
	LastDenial  *time.Time `json:"lastDenial,omitempty"`
	// BusiestMinute and BusiestHour are those with the most requests, and of equal ones the first. They begin at full minutes and hours.
	BusiestMinute *Span `json:"busiestMinute,omitempty"`
	BusiestHour   *Span `json:"busiestHour,omitempty"`

	// Tiers are in the order of the policy. The last has no name: the requests of no tier.
	Tiers []Tier `json:"tiers,omitempty"`
	// Top are the identifiers with the most denials, and among equal ones those with the most requests.
	Top []Identifier `json:"top,omitempty"`
	// Series is over time, see [Result.BucketSeconds]. It has as many buckets as that of the Result.
	Series []Cell `json:"series"`
	// HoursOfDay has a Cell for each hour of the day, in UTC, beginning with midnight.
	HoursOfDay []Cell `json:"hoursOfDay"`
	// Use is the distribution of identifiers by what they asked for.
	Use []Bin `json:"use"`
	// Curve is what other limits would have denied; nil if it was not computed.
	Curve *Curve `json:"curve,omitempty"`
	// Suggestions are sorted by window, then by algorithm.
	Suggestions []Suggestion `json:"suggestions,omitempty"`
	// Silent is set if the policy matched no request: the likely reason, in a sentence.
	Silent string `json:"silent,omitempty"`
}

// Use is the use of a limit by an identifier.
type Use struct {
	Identifier string    `json:"identifier"`
	Used       int64     `json:"used"` // units
	Limit      int64     `json:"limit"`
	At         time.Time `json:"at"`
}

// Span is a span of time with its requests.
type Span struct {
	Start time.Time `json:"start"`
	Cell
}

// Tier is what a tier of a policy saw. Unlimited tiers deny nothing.
type Tier struct {
	Name      string `json:"name"`
	Limit     int64  `json:"limit"`
	Unlimited bool   `json:"unlimited,omitempty"`
	Cell
}

// Identifier is what an identifier saw under a policy.
type Identifier struct {
	// Identifier as it is counted: secrets are hashed. One longer than 256 bytes is cut, and ends with "…", here and elsewhere.
	Identifier string `json:"identifier"`
	Cell
	// Peak is the largest number of units that it asked for in one window, allowed or not. See [Bin].
	Peak        int64     `json:"peak"`
	FirstDenial time.Time `json:"firstDenial"`
}

// Bin counts identifiers by their peak: the largest number of units that the identifier asked for in one window, allowed or not. Windows are those
// of the policy, aligned to the epoch. A Bin has peaks from From up to To, inclusive. Bins are sorted, and empty ones are omitted.
type Bin struct {
	From        int64 `json:"from"`
	To          int64 `json:"to"`
	Identifiers int64 `json:"identifiers"`
}

// Curve is what a policy would have denied with other limits, each as if no other policy had denied a request, and with the limit for all requests
// that belong to no tier. Therefore the figures at the limit of the policy can be higher than those of the policy.
type Curve struct {
	// SampledOneIn is 1 if all identifiers are counted. Otherwise only one in so many is, chosen by a hash, and all figures are those of the sample.
	SampledOneIn int64 `json:"sampledOneIn"`
	// Requests and Identifiers are those that the points are a part of.
	Requests    int64        `json:"requests"`
	Identifiers int64        `json:"identifiers"`
	Points      []CurvePoint `json:"points"` // by ascending limit
}

// CurvePoint is one limit of a Curve.
type CurvePoint struct {
	Limit             int64 `json:"limit"`
	DeniedRequests    int64 `json:"deniedRequests"`
	DeniedIdentifiers int64 `json:"deniedIdentifiers"`
}

// Suggestion is the smallest limit for a window and an algorithm that denies no more than the given share.
type Suggestion struct {
	WindowSeconds int64  `json:"windowSeconds"`
	Algorithm     string `json:"algorithm"`
	Limit         int64  `json:"limit"`
	// Burst is the length of the queue of an algorithm that delays requests. The callers must be able to wait.
	Burst int64 `json:"burst,omitempty"`
	// SampledOneIn, Requests and Identifiers are as in [Curve].
	SampledOneIn      int64 `json:"sampledOneIn"`
	Requests          int64 `json:"requests"`
	Identifiers       int64 `json:"identifiers"`
	DeniedRequests    int64 `json:"deniedRequests"`
	DeniedIdentifiers int64 `json:"deniedIdentifiers"`
	// Counters is the approximate number of counters in Redis at the busiest time, for all identifiers, and RedisBytes their approximate memory.
	Counters   int64 `json:"counters"`
	RedisBytes int64 `json:"redisBytes"`
}

// Proposal is a policy in Shadow mode for an axis that no policy limits.
type Proposal struct {
	Name string `json:"name"` // of the policy in Policies that was replayed for it
	YAML string `json:"yaml"`
}

// Difference compares the decisions under the policies with those under the policies before a change, for each request.
type Difference struct {
	// Before counts the requests under the policies before the change.
	Before       Total `json:"before"`
	NewlyDenied  int64 `json:"newlyDenied"`
	NewlyAllowed int64 `json:"newlyAllowed"`
	// Policies are those of both sides, sorted by name.
	Policies []PolicyDifference `json:"policies"`
	// TopDenied and TopAllowed are the identifiers with the most newly denied and newly allowed requests.
	TopDenied  []Affected `json:"topDenied,omitempty"`
	TopAllowed []Affected `json:"topAllowed,omitempty"`
}

// Change is what happened to a policy.
type Change string

// The changes of a policy.
const (
	Added     Change = "added"
	Removed   Change = "removed"
	Changed   Change = "changed"
	Unchanged Change = "unchanged"
)

// PolicyDifference is the difference for one policy.
type PolicyDifference struct {
	Name   string `json:"name"`
	Change Change `json:"change"`
	// DeniedBefore and Denied are the requests that the policy denies, or would deny in Shadow mode.
	DeniedBefore int64 `json:"deniedBefore"`
	Denied       int64 `json:"denied"`
	// NewlyDenied requests are denied by this policy, and were allowed by all policies before. NewlyAllowed requests were denied by it before.
	NewlyDenied  int64 `json:"newlyDenied"`
	NewlyAllowed int64 `json:"newlyAllowed"`
	// Identifiers whose requests are newly denied, and newly allowed, by this policy.
	IdentifiersDenied  int64 `json:"identifiersDenied"`
	IdentifiersAllowed int64 `json:"identifiersAllowed"`
}

// Affected is an identifier whose requests are decided in another way.
type Affected struct {
	Policy     string `json:"policy"`
	Identifier string `json:"identifier"`
	Requests   int64  `json:"requests"`
}
