package adminapi

// The severities of a [RedisFinding].
const (
	RedisError   = "error"   // Weir cannot use this Redis, or not for all policies
	RedisWarning = "warning" // Weir works, but not as well as it could
)

// RedisReport is what a process finds out about its Redis. Durations are in seconds, and memory is in bytes. What cannot be found out is absent.
type RedisReport struct {
	Usable      bool                     `json:"usable"` // no finding is an error
	Server      *RedisServer             `json:"server,omitempty"`
	Permissions []MissingRedisPermission `json:"missingPermissions,omitempty"`
	Primaries   []RedisPrimary           `json:"primaries,omitempty"`
	FreeMemory  int64                    `json:"freeMemoryBytes,omitempty"` // of all primaries; 0 if maxmemory is not set
	Policies    []RedisPolicyUse         `json:"policies,omitempty"`
	Findings    []RedisFinding           `json:"findings"`
}

// RedisServer describes the servers.
type RedisServer struct {
	Description string `json:"description"` // in a few words, such as "Redis 7.0.15, Cluster with 3 primaries"
	Product     string `json:"product,omitempty"`
	Version     string `json:"version,omitempty"`
	Mode        string `json:"mode"`
	Corrected   bool   `json:"corrected,omitempty"` // the configuration names one server, which is a node of a cluster
	Primaries   int    `json:"primaries"`
	Replicas    int    `json:"replicas"`
	Databases   int    `json:"databases,omitempty"`
	Eviction    string `json:"maxmemoryPolicy,omitempty"`
	Persistence string `json:"persistence,omitempty"`
	MaxMemory   int64  `json:"maxmemoryBytes,omitempty"` // of the fullest primary
	UsedMemory  int64  `json:"usedMemoryBytes,omitempty"`
	RESP3       bool   `json:"resp3"`
}

// MissingRedisPermission is a permission that the user lacks, or a command that the server does not have.
type MissingRedisPermission struct {
	Rule     string `json:"rule"` // in the form of ACL SETUSER
	Optional bool   `json:"optional,omitempty"`
	Reply    string `json:"reply"` // of Redis
}

// RedisPrimary has the measurements of a primary.
type RedisPrimary struct {
	Address    string  `json:"address"`
	ClockAhead float64 `json:"clockAheadSeconds"`
	P50        float64 `json:"p50Seconds"`
	P90        float64 `json:"p90Seconds"`
	P99        float64 `json:"p99Seconds"`
	Max        float64 `json:"maxSeconds"`
	Samples    int     `json:"samples"`
}

// RedisPolicyUse is the memory of a policy: approximate bytes for each identifier, and how many fit into the free memory without other policies.
type RedisPolicyUse struct {
	Policy      string `json:"policy"`
	Bytes       int64  `json:"bytesPerIdentifier"`
	Identifiers int64  `json:"identifiersThatFit,omitempty"`
}

// RedisFinding is something to change.
type RedisFinding struct {
	Severity string `json:"severity"`
	Text     string `json:"text"`
}

// Add adds a finding to the report, which is unusable after an error.
func (r *RedisReport) Add(severity, text string) {
	r.Findings = append(r.Findings, RedisFinding{severity, text})
	r.Usable = r.Usable && severity != RedisError
}
