package v1alpha1

// Redis is where a Limiter's counters are.
// +kubebuilder:validation:XValidation:rule="self.mode != 'Standalone' || size(self.addresses) == 1",fieldPath=".addresses",message="Standalone is one server, at one address; choose Sentinel or Cluster for more"
// +kubebuilder:validation:XValidation:rule="self.mode != 'Sentinel' || has(self.masterName)",fieldPath=".masterName",message="Sentinel needs the name that the Sentinels know the primary by"
// +kubebuilder:validation:XValidation:rule="self.mode == 'Sentinel' || !has(self.masterName)",fieldPath=".masterName",message="masterName is what Sentinels know a primary by; remove it, or choose mode Sentinel"
// +kubebuilder:validation:XValidation:rule="self.mode != 'Cluster' || self.database == 0",fieldPath=".database",message="a Redis Cluster has database 0 alone"
type Redis struct {
	// mode: one server (Standalone), one that Sentinels watch over (Sentinel), or a Redis Cluster (Cluster).
	// +optional
	// +kubebuilder:default=Standalone
	Mode RedisMode `json:"mode,omitempty"`
	// addresses as host:port: the server; or some of the Sentinels, or some nodes of the cluster, which know the others.
	// +required
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	Addresses []RedisAddress `json:"addresses"`
	// database is the number of the database.
	// +optional
	// +kubebuilder:default=0
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=16383
	Database int32 `json:"database,omitempty"`
	// masterName is what the Sentinels know the primary by.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z0-9._-]+$')",message="a name of Sentinel is one or more letters, digits, dots, hyphens and underscores"
	MasterName string `json:"masterName,omitempty"`
	// credentialsSecretRef names a Secret with the keys username, which may be absent, and password; for Sentinels that want
	// credentials too: sentinel-username and sentinel-password. Absent: no credentials.
	// +optional
	CredentialsSecretRef *SecretReference `json:"credentialsSecretRef,omitempty"`
	// tls: the connections are encrypted, with servers and Sentinels alike. Absent: they are not.
	// +optional
	TLS *RedisTLS `json:"tls,omitempty"`
	// timeout is how long a decision may wait for Redis before it is made without: 1ms to 10s.
	// +optional
	// +kubebuilder:default="50ms"
	Timeout Timeout `json:"timeout,omitempty"`
}

// RedisMode is how Redis is run.
// +kubebuilder:validation:Enum=Standalone;Sentinel;Cluster
type RedisMode string

// The modes of Redis.
const (
	RedisStandalone RedisMode = "Standalone"
	RedisSentinel   RedisMode = "Sentinel"
	RedisCluster    RedisMode = "Cluster"
)

// RedisAddress is host:port: a DNS name or an IPv4 address, or an IPv6 address in brackets.
// +kubebuilder:validation:MaxLength=259
// +kubebuilder:validation:XValidation:rule="self.matches('^([A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?([.][A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?)*[.]?|[[][0-9A-Fa-f:.]+[]]):[1-9][0-9]{0,4}$') && int(self.substring(self.lastIndexOf(':') + 1)) <= 65535 && (!self.startsWith('[') || isIP(self.substring(1, self.indexOf(']'))))",message="an address is host:port without a scheme, such as redis.redis:6379, 10.0.0.7:6379 or [2001:db8::7]:6379"
type RedisAddress string

// Timeout is a duration in whole milliseconds ("50ms") or seconds ("1s") as text.
// +kubebuilder:validation:MaxLength=16
// +kubebuilder:validation:XValidation:rule="self.matches('^[0-9]{1,5}(ms|s)$') && duration(self) >= duration('1ms') && duration(self) <= duration('10s')",message="a timeout is from 1ms to 10s, in whole milliseconds (50ms) or seconds (1s)"
type Timeout string

// RedisTLS is how the connections to Redis are encrypted.
type RedisTLS struct {
	// secretRef names a Secret with the key ca.crt, the authorities that vouch for Redis, and the keys tls.crt and tls.key, the
	// certificate that limiters show; of each that is absent the system's authorities, and no certificate. Absent: neither.
	// +optional
	SecretRef *SecretReference `json:"secretRef,omitempty"`
}

// SecretReference names a Secret in the namespace of the object that refers to it.
type SecretReference struct {
	// name of the Secret.
	// +required
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([a-z0-9-]*[a-z0-9])?([.][a-z0-9]([a-z0-9-]*[a-z0-9])?)*$')",message="the name of a Secret is lower-case letters, digits, hyphens and dots, and begins and ends with a letter or digit"
	Name string `json:"name"`
}
