package deployment

import (
	"fmt"
	"net/url"
	"path"
	"strings"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/controllers/deployment/redisauth"
	"github.com/weir-dev/weir/controllers/hashkey"
)

// arguments returns the arguments of the process. They contain no secrets. The identity table is compiled into the rules.
func arguments(limiter *v1alpha1.Limiter, secrets Secrets, options Options, bounded bool) []string {
	spec := limiter.Spec
	args := []string{
		"limiter",
		"--limiter=" + limiter.Namespace + "/" + limiter.Name,
		"--redis=" + redisURL(spec.Redis),
	}
	if spec.Redis.Timeout != "" {
		args = append(args, "--redis-timeout="+string(spec.Redis.Timeout))
	}
	if credentialsSecret(limiter) != "" {
		args = append(args, "--redis-credentials="+credentialsDir)
	}
	args = append(args, redisauth.Arguments(spec.Redis.Auth)...)
	for _, file := range [...]struct{ flag, key string }{
		{"--redis-ca", caKey}, {"--redis-cert", certificateKey}, {"--redis-key", privateKeyKey},
	} {
		if tlsSecret(limiter) != "" && secrets.TLS.Has(file.key) {
			args = append(args, file.flag+"="+path.Join(tlsDir, file.key))
		}
	}
	if options.KeyPrefix != "" {
		args = append(args, "--prefix="+options.KeyPrefix)
	}
	args = append(args, counterArguments(spec)...)
	if options.HashKey != nil {
		args = append(args, "--hash-key="+path.Join(hashKeyDir, hashkey.DataKey))
	}
	args = append(args, adminArguments(options)...)
	args = append(args, endpointArguments(spec)...)
	if options.servesThrottle(limiter) {
		args = append(args, throttleArguments(limiter)...)
	}
	if bounded {
		args = append(args, "--memory=$(MEMORY_LIMIT)Mi")
	}
	return append(args, fmt.Sprintf("--drain=%ds", drainSeconds(limiter)), "--snapshot="+path.Join(snapshotDir, "rules.json.gz"), "--log-format=json")
}

// counterArguments returns the flags for the counters of policies.
func counterArguments(spec v1alpha1.LimiterSpec) []string {
	var args []string
	if spec.CounterGroup != "" {
		args = append(args, "--counter-group="+spec.CounterGroup)
	}
	if most := spec.Identifiers.Max; most != nil {
		args = append(args, fmt.Sprintf("--max-identifiers=%d", *most))
	}
	if overflow := spec.Identifiers.Overflow; overflow != "" {
		args = append(args, "--identifier-overflow="+string(overflow))
	}
	return args
}

// decisionLogArguments returns the flags for the decision log.
func decisionLogArguments(log v1alpha1.DecisionLog) []string {
	var args []string
	if log.DenialsPerSecond > 0 {
		args = append(args, fmt.Sprintf("--decision-log-denials=%d", log.DenialsPerSecond))
	}
	if log.SampleOneIn > 0 {
		args = append(args, fmt.Sprintf("--decision-log-sample=%d", log.SampleOneIn))
	}
	if log.Identifiers != "" {
		args = append(args, "--decision-log-identifiers="+string(log.Identifiers))
	}
	return args
}

// redisURL returns the URL of Redis without credentials.
func redisURL(redis v1alpha1.Redis) string {
	u := url.URL{Scheme: "redis", Host: string(redis.Addresses[0])}
	if redis.TLS != nil {
		u.Scheme = "rediss"
	}
	var query []string // url.Values would not keep the order
	for _, address := range redis.Addresses[1:] {
		query = append(query, "addr="+string(address))
	}
	switch redis.EffectiveMode() {
	case v1alpha1.RedisCluster:
		query = append(query, "cluster=true")
	case v1alpha1.RedisSentinel:
		query = append(query, "master="+url.QueryEscape(redis.MasterName))
	case v1alpha1.RedisStandalone, v1alpha1.RedisAuto:
	}
	if redis.Database != 0 {
		u.Path = fmt.Sprintf("/%d", redis.Database)
	}
	u.RawQuery = strings.Join(query, "&")
	return u.String()
}
