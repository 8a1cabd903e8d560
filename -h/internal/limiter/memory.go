package limiter

// DefaultMemory is the memory in bytes that counters can use in a Redis primary whose limit is unknown.
const DefaultMemory = 1 << 30

// Memory is a reading of the memory of all Redis primaries.
type Memory struct {
	// Max is the sum of their maxmemory, in bytes. A primary without maxmemory counts as DefaultMemory.
	Max int64
	// Used is the used part of the fullest primary that rejects writes at its maxmemory, 0 … 1. It is 0 if there is no such primary.
	Used float64
	// Rejects is true if every primary rejects writes at its maxmemory. Otherwise Used does not describe how full all of them are.
	Rejects bool
}

// Crowding describes a policy whose new identifiers get no counter of their own, or soon will not. The empty value means neither.
type Crowding string

// The values of Crowding. The causes are the maximum number of identifiers and the memory of Redis.
const (
	NearMaximum Crowding = "NearMaximum"
	NearMemory  Crowding = "NearMemory"
	OverMaximum Crowding = "OverMaximum"
	OverMemory  Crowding = "OverMemory"
)

// MaxCrowded is the number of policies whose Crowding a replica reports.
const MaxCrowded = 16

// Severity is higher if new identifiers already get no counter; 0 for values that do not exist.
func (c Crowding) Severity() int {
	switch c {
	case NearMaximum:
		return 1
	case NearMemory:
		return 2
	case OverMaximum:
		return 3
	case OverMemory:
		return 4
	default:
		return 0
	}
}

// Over reports whether new identifiers get no counter of their own.
func (c Crowding) Over() bool { return c.Severity() >= OverMaximum.Severity() }
