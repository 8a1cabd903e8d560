package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/weir-dev/weir/cmd/weir/flags"
	"github.com/weir-dev/weir/internal/importer/envoyratelimit"
	"github.com/weir-dev/weir/internal/ratelimitservice"
	"github.com/weir-dev/weir/limiter/redisclient"
	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/limiter/server/envoy"
	"github.com/weir-dev/weir/limiter/xds"
)

// rateLimitService is what weir ratelimit has in addition to a limiter: the configuration over xDS, and the statistics of the service.
type rateLimitService struct {
	process  *process
	settings *ratelimitservice.Settings
	options  ratelimitservice.Options
	stats    *serviceStats
	ping     func(context.Context) error // Redis
	debug    net.Addr
	limits   atomic.Pointer[map[string]*envoy.ReferenceLimit]
	mixed    atomic.Bool // some limits have another algorithm
	// expiring has a value when a domain may have a new time of removal.
	expiring chan struct{}

	mu       sync.Mutex
	domains  *ratelimitservice.Domains
	revision string // of the active rules; empty before the first configuration
	lastErr  error  // of the last configuration
	report   []ratelimitservice.LimitReport
}

func newRateLimitService(p *process, settings *ratelimitservice.Settings, options ratelimitservice.Options, keep time.Duration) *rateLimitService {
	return &rateLimitService{
		process: p, settings: settings, options: options, stats: newServiceStats(p.registry, settings.NearLimit),
		expiring: make(chan struct{}, 1), domains: ratelimitservice.NewDomains(options, keep),
	}
}

// configure makes the rate limit service answer as the service does.
func (s *rateLimitService) configure(o *envoy.Options) {
	o.Reference = &envoy.Reference{Limit: s.limit, CountsDenied: s.countsDenied(), Mixed: s.mixed.Load}
	o.RateLimitSeconds = s.stats.observer(o.RateLimitSeconds)
	o.RateLimitFailures = s.stats.failures(o.RateLimitFailures)
}

// countsDenied reports whether limits without an algorithm in their metadata count denied requests.
func (s *rateLimitService) countsDenied() bool {
	return s.options.Algorithm == envoyratelimit.ServiceAlgorithm
}

func (s *rateLimitService) limit(policy string) *envoy.ReferenceLimit {
	if limits := s.limits.Load(); limits != nil {
		return (*limits)[policy]
	}
	return nil
}

// Ready implements server.RuleSource.
func (s *rateLimitService) Ready() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.revision != "":
		return nil
	case s.lastErr != nil:
		return fmt.Errorf("no configuration yet: the xDS server %s sent an invalid one: %w", s.settings.XDS.Server, s.lastErr)
	default:
		return fmt.Errorf("no configuration yet from the xDS server %s", s.settings.XDS.Server)
	}
}

// Origin implements server.RuleSource.
func (s *rateLimitService) Origin() string { return "xDS server " + s.settings.XDS.Server }

// client returns the client that receives the configuration.
func (s *rateLimitService) client() *xds.Client {
	source := &s.settings.XDS
	node := &corev3.Node{Id: source.NodeID, UserAgentName: "weir"}
	if len(source.Metadata) > 0 {
		node.Metadata = &structpb.Struct{Fields: map[string]*structpb.Value{}}
		for key, value := range source.Metadata {
			node.Metadata.Fields[key] = structpb.NewStringValue(value)
		}
	}
	o := xds.Options{
		Server: source.Server, Node: node, TypeURL: "type.googleapis.com/" + string((&ratelimitv3.RateLimitConfig{}).ProtoReflect().Descriptor().FullName()),
		Apply: s.apply, MinWait: source.MinWait, MaxWait: source.MaxWait, Metrics: xds.NewMetrics(s.process.registry), Log: s.process.log,
	}
	if source.TLS {
		o.Credentials = s.xdsCredentials
	}
	return xds.New(o)
}

// xdsCredentials reads the files for each connection.
func (s *rateLimitService) xdsCredentials() (*tls.Config, error) {
	source := &s.settings.XDS
	config := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: source.ServerName}
	if source.Certificate != "" {
		pair, err := tls.LoadX509KeyPair(source.Certificate, source.Key)
		if err != nil {
			return nil, fmt.Errorf("CONFIG_GRPC_XDS_CLIENT_TLS_CERT, CONFIG_GRPC_XDS_CLIENT_TLS_KEY: %w", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	if source.CA != "" {
		pool, err := flags.ReadCAs(source.CA)
		if err != nil {
			return nil, fmt.Errorf("CONFIG_GRPC_XDS_SERVER_TLS_CACERT: %w", err)
		}
		config.RootCAs = pool
	}
	return config, nil
}

// apply applies all resources of a response. The error describes those that are invalid.
func (s *rateLimitService) apply(resources []*anypb.Any) error {
	var problems []error
	configs := make([]*ratelimitv3.RateLimitConfig, 0, len(resources))
	for i, resource := range resources {
		config := &ratelimitv3.RateLimitConfig{}
		if err := resource.UnmarshalTo(config); err != nil {
			problems = append(problems, fmt.Errorf("resource %d: %w", i, err))
			continue
		}
		configs = append(configs, config)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	complete := len(problems) == 0
	if err := s.domains.Update(time.Now(), configs, complete); err != nil {
		problems = append(problems, err)
	}
	if s.revision != "" || len(problems) == 0 || s.domains.Count() > 0 {
		if err := s.activate(); err != nil {
			problems = append(problems, err)
		}
	}
	s.lastErr = errors.Join(problems...)
	s.stats.loaded(s.lastErr)
	select {
	case s.expiring <- struct{}{}:
	default:
	}
	return s.lastErr
}

// activate makes the rules of all domains active, unless they are. mu is held.
func (s *rateLimitService) activate() error {
	log := s.process.log
	for _, change := range s.domains.Changes() {
		log.Warn("limits: " + change)
	}
	set, limits := s.domains.Rules()
	_, revision := rules.Encode(set)
	if revision == s.revision {
		return nil
	}
	references := make(map[string]*envoy.ReferenceLimit, len(limits))
	for policy, limit := range limits {
		references[policy] = s.stats.reference(limit)
	}
	mixed := slices.ContainsFunc(set.Rules, func(r rules.Rule) bool { return r.Debt != s.countsDenied() })
	if mixed { // before the rules, because it is also right for those that are replaced
		s.mixed.Store(true)
	}
	if err := s.process.applySet(set, revision); err != nil {
		return fmt.Errorf("activate the limits: %w", err)
	}
	s.mixed.Store(mixed)
	s.limits.Store(&references)
	s.stats.keep(limits)
	s.report = ratelimitservice.Report(set, limits)
	log.Info("activated limits", "revision", revision, "previous", s.revision, "domains", s.domains.Count(), "limits", len(set.Rules))
	if len(set.Rules) == 0 {
		log.Warn("no limit is enforced: all requests are allowed")
	}
	s.revision = revision
	return nil
}

// expire removes the domains that the server has removed, until ctx is done.
func (s *rateLimitService) expire(ctx context.Context) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.expiring:
		case <-timer.C:
		}
		s.mu.Lock()
		now := time.Now()
		if s.domains.Expire(now) {
			if err := s.activate(); err != nil {
				s.process.log.Error("removed domains stay active", "error", err)
			}
		}
		wait := time.Hour
		if expiry, ok := s.domains.NextExpiry(); ok {
			wait = expiry.Sub(now)
		}
		s.mu.Unlock()
		timer.Reset(max(wait, time.Millisecond))
	}
}

// openServiceRedis returns a client for the Redis of the settings. It does not connect.
func openServiceRedis(r *ratelimitservice.Redis, timeout time.Duration) (*redisclient.Client, error) {
	o := redisclient.Options{Mode: redisclient.ModeStandalone, Addresses: r.Addresses, MasterName: r.Primary}
	switch r.Type {
	case "SENTINEL":
		o.Mode = redisclient.ModeSentinel
	case "CLUSTER":
		o.Mode = redisclient.ModeCluster
	}
	if r.URL != "" {
		var err error
		if o, err = redisclient.ParseURL(r.URL); err != nil {
			return nil, fmt.Errorf("environment variable REDIS_URL: %w", err)
		}
	}
	if r.Password != "" {
		o.Username, o.Password = r.Username, r.Password
	}
	o.SentinelUsername, o.SentinelPassword, o.Timeout = r.SentinelUsername, r.SentinelPassword, timeout
	if r.TLS && o.TLS == nil {
		o.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	if o.TLS == nil {
		return redisclient.New(o)
	}
	if r.SkipHostname {
		o.TLS.InsecureSkipVerify = true // VerifyConnection verifies the chain
		o.TLS.VerifyConnection = func(state tls.ConnectionState) error { return verifyChain(state, r.CA) }
	}
	files := flags.RedisTLS{Ca: r.CA, Cert: r.Certificate, Key: r.Key}
	if err := files.AddTLS(&o); err != nil {
		return nil, fmt.Errorf("REDIS_TLS_CACERT, REDIS_TLS_CLIENT_CERT, REDIS_TLS_CLIENT_KEY: %w", err)
	}
	return redisclient.New(o)
}

// verifyChain verifies the certificate of a server, except for its names. Without a file, the CAs are those of the system.
func verifyChain(state tls.ConnectionState, ca string) error {
	options := x509.VerifyOptions{Intermediates: x509.NewCertPool()}
	if ca != "" {
		pool, err := flags.ReadCAs(ca)
		if err != nil {
			return err
		}
		options.Roots = pool
	}
	for _, certificate := range state.PeerCertificates[1:] {
		options.Intermediates.AddCert(certificate)
	}
	_, err := state.PeerCertificates[0].Verify(options)
	return err //nolint:wrapcheck // it names the certificate
}
