package v1alpha1

// Redis configures the Redis server or cluster that stores the counters of a Limiter.
// +kubebuilder:validation:XValidation:rule="!has(self.mode) || self.mode != 'Standalone' || size(self.addresses) == 1",fieldPath=".addresses",message="mode Standalone requires exactly one address; use mode Auto, Sentinel or Cluster for several addresses"
// +kubebuilder:validation:XValidation:rule="!has(self.mode) || self.mode != 'Sentinel' || has(self.masterName)",fieldPath=".masterName",message="masterName is required with mode Sentinel: it is the name of the primary in the Sentinel configuration"
// +kubebuilder:validation:XValidation:rule="!has(self.masterName) || !has(self.mode) || self.mode in ['Auto', 'Sentinel']",fieldPath=".masterName",message="masterName is valid only with mode Auto or Sentinel; remove it or use one of these modes"
// +kubebuilder:validation:XValidation:rule="!has(self.mode) || self.mode != 'Cluster' || !has(self.database) || self.database == 0",fieldPath=".database",message="database must be 0 with mode Cluster, because a Redis Cluster has only database 0"
// +kubebuilder:validation:XValidation:rule="has(self.mode) && self.mode != 'Auto' || has(self.masterName) || size(self.addresses) == 1 || !has(self.database) || self.database == 0",fieldPath=".database",message="database must be 0 with several addresses and without masterName: they are those of a Redis Cluster, which has only database 0"
// +kubebuilder:validation:XValidation:rule="!has(self.auth) || !has(self.credentialsSecretRef) && !has(self.operatorCredentialsSecretRef)",fieldPath=".auth",message="auth is invalid together with credentialsSecretRef or operatorCredentialsSecretRef, because a token is the password; remove one of them"
// +kubebuilder:validation:XValidation:rule="!has(self.auth) || has(self.tls)",fieldPath=".tls",message="tls is required with auth, because a token can be used by everyone who reads it; add tls: {}"
// +kubebuilder:validation:XValidation:rule="!has(self.auth) || !has(self.masterName) && (!has(self.mode) || self.mode != 'Sentinel')",fieldPath=".auth",message="auth is invalid with Sentinels: the services that accept tokens do not have them; use the address of the cache, without masterName"
type Redis struct {
	// mode is how Redis is deployed. Standalone is a single server. Sentinel is a primary that Redis Sentinels monitor. Cluster is a
	// Redis Cluster. Auto is Sentinel with masterName, Cluster with several addresses, and otherwise what the server at the address is:
	// a single server or a node of a Redis Cluster. Defaults to Auto.
	// +optional
	Mode RedisMode `json:"mode,omitempty"`
	// addresses lists addresses as host:port, without a scheme. With Standalone, it is the address of the server. With Sentinel, list
	// one or more Sentinels. With Cluster, list one or more nodes; the limiter discovers the other nodes. If the nodes have other ports
	// than the address, set mode Cluster: with Auto and one address, the NetworkPolicy permits only the port of the address. For example:
	// redis.redis:6379.
	// +required
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	Addresses []RedisAddress `json:"addresses"`
	// database is the number of the Redis database. It must be 0 with a Redis Cluster. Defaults to 0.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=16383
	Database int32 `json:"database,omitempty"`
	// masterName is the name of the primary in the Sentinel configuration. It is required with mode Sentinel, and selects it with mode
	// Auto. It is invalid with other modes. For example: mymaster.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z0-9._-]+$')",message="masterName must be one or more letters, digits, dots, hyphens and underscores"
	MasterName string `json:"masterName,omitempty"`
	// credentialsSecretRef references a Secret with the key password and the optional key username. If the Sentinels require
	// credentials, add the keys sentinel-password and, optionally, sentinel-username. If omitted, the limiter connects without
	// credentials.
	// +optional
	CredentialsSecretRef *SecretReference `json:"credentialsSecretRef,omitempty"`
	// operatorCredentialsSecretRef references a Secret of the same form with the credentials of the operator, which publishes the rules. The
	// pods do not receive it. With it, Redis can forbid the pods to write rules. If omitted, the operator uses credentialsSecretRef.
	// +optional
	OperatorCredentialsSecretRef *SecretReference `json:"operatorCredentialsSecretRef,omitempty"`
	// auth authenticates with tokens of a cloud provider, which expire, in place of a password. It requires tls. The operator authenticates
	// with the identity of its own ServiceAccount, weir-operator.
	// +optional
	Auth *RedisAuth `json:"auth,omitempty"`
	// tls enables TLS for the connections to Redis servers and Sentinels. An empty object enables TLS with the CA certificates of the
	// system. If omitted, the connections are not encrypted.
	// +optional
	TLS *RedisTLS `json:"tls,omitempty"`
	// timeout is the longest time that a decision waits for Redis. After that, the policy's onStoreFailure decides. 1ms to 10s.
	// With kubernetesThrottle, the maximum is 750ms. Defaults to 50ms.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,5}h)?([0-9]{1,5}m)?([0-9]{1,5}s)?([0-9]{1,5}ms)?$') && size(self) > 1 && duration(self) >= duration('1ms') && duration(self) <= duration('10s')",message="timeout must be from 1ms to 10s, such as 50ms or 1s"
	Timeout Duration `json:"timeout,omitempty"`
}

// RedisMode is how Redis is deployed.
// +kubebuilder:validation:Enum=Auto;Standalone;Sentinel;Cluster
type RedisMode string

const (
	// RedisAuto is found out: from the other fields, and from what the server reports.
	RedisAuto RedisMode = "Auto"
	// RedisStandalone is a single Redis server.
	RedisStandalone RedisMode = "Standalone"
	// RedisSentinel is a Redis primary that Sentinels monitor.
	RedisSentinel RedisMode = "Sentinel"
	// RedisCluster is a Redis Cluster.
	RedisCluster RedisMode = "Cluster"
)

// RedisAddress is host:port. The host is a DNS name, an IPv4 address, or an IPv6 address in brackets.
// +kubebuilder:validation:MaxLength=259
// +kubebuilder:validation:XValidation:rule="self.matches('^([A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?([.][A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?)*[.]?|[[][0-9A-Fa-f:.]+[]]):[1-9][0-9]{0,4}$') && int(self.substring(self.lastIndexOf(':') + 1)) <= 65535 && (!self.startsWith('[') || isIP(self.substring(1, self.indexOf(']'))))",message="an address must be host:port without a scheme, such as redis.redis:6379, 10.0.0.7:6379 or [2001:db8::7]:6379"
type RedisAddress string

// RedisTLS configures TLS for the connections to Redis.
type RedisTLS struct {
	// secretRef references a Secret with CA certificates for Redis (key ca.crt) and a client certificate (keys tls.crt and tls.key).
	// Without ca.crt, the CA certificates of the system are used. Without tls.crt and tls.key, the limiter presents no client
	// certificate. If omitted, both apply.
	// +optional
	SecretRef *SecretReference `json:"secretRef,omitempty"`
}

// SecretReference references a Secret in the namespace of the referencing object.
type SecretReference struct {
	// name is the name of the Secret.
	// +required
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([a-z0-9-]*[a-z0-9])?([.][a-z0-9]([a-z0-9-]*[a-z0-9])?)*$')",message="the name of a Secret must consist of lower-case letters, digits, hyphens and dots, and must begin and end with a letter or digit"
	Name string `json:"name"`
}

// EffectiveMode returns the mode that Auto selects from the other fields. Standalone means one address: the server there can also be a node of
// a Redis Cluster.
func (r *Redis) EffectiveMode() RedisMode {
	switch {
	case r.Mode != "" && r.Mode != RedisAuto:
		return r.Mode
	case r.MasterName != "":
		return RedisSentinel
	case len(r.Addresses) > 1:
		return RedisCluster
	default:
		return RedisStandalone
	}
}
