package v1alpha1

// RedisAuth selects the provider of tokens that authenticate with Redis. Exactly one member is set.
// +kubebuilder:validation:ExactlyOneOf=aws;google;azure
type RedisAuth struct {
	// aws authenticates with IAM, for ElastiCache and MemoryDB. The AWS credentials are those of EKS Pod Identity, of an IAM role for
	// service accounts (IRSA), or of the role of the node.
	// +optional
	AWS *RedisAWSAuth `json:"aws,omitempty"`
	// google authenticates with IAM, for Memorystore. The tokens are those that the metadata server of the node has for the ServiceAccount
	// of the pods.
	// +optional
	Google *RedisGoogleAuth `json:"google,omitempty"`
	// azure authenticates with Microsoft Entra ID, for Azure Managed Redis and Azure Cache for Redis. The tokens are those of Microsoft
	// Entra Workload ID. Redis knows each identity by its object ID, which is in the token.
	// +optional
	Azure *RedisAzureAuth `json:"azure,omitempty"`
}

// RedisAWSAuth describes the cache and its users.
type RedisAWSAuth struct {
	// service is the service that runs the cache.
	// +required
	Service RedisAWSService `json:"service"`
	// name is the name of the cache, without a domain: of the cache or replication group with ElastiCache, of the serverless cache with
	// ElastiCacheServerless, of the cluster with MemoryDB. Tokens are signed for this name.
	// +required
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z]([A-Za-z0-9-]*[A-Za-z0-9])?$')",message="name must be the name of the cache without a domain: letters, digits and hyphens, and it must begin with a letter"
	Name string `json:"name"`
	// region is the AWS region of the cache. For example: eu-west-1.
	// +required
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z]{2}(-[a-z]+)+-[0-9]+$')",message="region must be an AWS region, such as eu-west-1"
	Region string `json:"region"`
	// user is the name of the user of the pods in the service. Its authentication mode must be IAM.
	// +required
	User RedisUser `json:"user"`
	// operatorUser is the user of the operator, which publishes the rules. With it, the service can forbid the pods to write rules. If
	// omitted, the operator uses user.
	// +optional
	OperatorUser RedisUser `json:"operatorUser,omitempty"`
	// roleARN is the IAM role of the pods. It becomes the annotation eks.amazonaws.com/role-arn of their ServiceAccount. Omit it with EKS Pod
	// Identity, which associates a role with the ServiceAccount weir-limiter-<name of the Limiter>.
	// +optional
	// +kubebuilder:validation:MaxLength=2048
	// +kubebuilder:validation:XValidation:rule="self.matches('^arn:aws[a-z-]*:iam::[0-9]{12}:role/[A-Za-z0-9+=,.@_/-]+$')",message="roleARN must be the ARN of an IAM role, such as arn:aws:iam::123456789012:role/weir-limiter"
	RoleARN string `json:"roleARN,omitempty"`
}

// RedisUser is the name of a user in ElastiCache or MemoryDB.
// +kubebuilder:validation:MaxLength=128
// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z0-9_.-]+$')",message="a user must be one or more letters, digits, hyphens, underscores and dots"
type RedisUser string

// RedisAWSService is a service of AWS that runs Redis or Valkey.
// +kubebuilder:validation:Enum=ElastiCache;ElastiCacheServerless;MemoryDB
type RedisAWSService string

const (
	// RedisElastiCache is ElastiCache with nodes.
	RedisElastiCache RedisAWSService = "ElastiCache"
	// RedisElastiCacheServerless is a serverless cache of ElastiCache.
	RedisElastiCacheServerless RedisAWSService = "ElastiCacheServerless"
	// RedisMemoryDB is MemoryDB.
	RedisMemoryDB RedisAWSService = "MemoryDB"
)

// RedisGoogleAuth describes the identity of the pods.
type RedisGoogleAuth struct {
	// serviceAccount is the e-mail address of the IAM service account of the pods. It becomes the annotation iam.gke.io/gcp-service-account of
	// their ServiceAccount. Omit it if roles are granted to the ServiceAccount itself.
	// +optional
	// +kubebuilder:validation:MaxLength=320
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z][a-z0-9-]*@[a-z][a-z0-9.:-]*$')",message="serviceAccount must be the e-mail address of an IAM service account, such as weir@project.iam.gserviceaccount.com"
	ServiceAccount string `json:"serviceAccount,omitempty"`
}

// RedisAzureAuth describes the identity of the pods.
type RedisAzureAuth struct {
	// clientID is the client ID of the managed identity or application of the pods. It becomes the annotation
	// azure.workload.identity/client-id of their ServiceAccount. If omitted, the pods use the managed identity of the node.
	// +optional
	// +kubebuilder:validation:MaxLength=36
	// +kubebuilder:validation:XValidation:rule="self.matches('^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$')",message="clientID must be a UUID, such as 0b1f6471-1bf0-4dda-aec3-cb9272f09590"
	ClientID string `json:"clientID,omitempty"`
}
