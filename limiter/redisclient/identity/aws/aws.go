// Package aws authenticates with ElastiCache and MemoryDB: the password of a connection is a signed request, as
// https://docs.aws.amazon.com/AmazonElastiCache/latest/dg/auth-iam.html and https://docs.aws.amazon.com/memorydb/latest/devguide/auth-iam.html
// describe it.
package aws

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"

	"github.com/weir-dev/weir/limiter/redisclient/identity"
)

const (
	// tokenLife is how long the service accepts a signed request.
	tokenLife = 15 * time.Minute
	// connectionLife is how long the service keeps an authenticated connection.
	connectionLife = 12 * time.Hour
	// connectionMargin is the time that is left when connections are replaced: the service can be unavailable for so long.
	connectionMargin = time.Hour
)

// emptyBodyHash is the SHA-256 of an empty body, which is part of a signature.
const emptyBodyHash = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

// Options describe a cache and its user.
type Options struct {
	// MemoryDB is true for a cluster of MemoryDB, and false for a cache of ElastiCache.
	MemoryDB bool
	// Serverless is true for a serverless cache of ElastiCache.
	Serverless bool
	// Cache is the name of the cache, replication group or cluster.
	Cache string
	// User is the name of the user in the service.
	User string
	// Region is that of the cache. If empty, it is AWS_REGION or AWS_DEFAULT_REGION.
	Region string

	// Getenv returns variables of the environment; nil for those of the process.
	Getenv func(string) string
	// Now returns the time; nil for the clock of the machine.
	Now func() time.Time
}

// Provider implements [identity.Provider]. Its methods must not be called concurrently.
type Provider struct {
	options Options
	signer  *v4.Signer
	source  sessionSource

	session  awssdk.Credentials // of the role
	obtained time.Time
}

// New returns a Provider. It finds the source of AWS credentials in the environment, in the order of the AWS SDKs, and calls nothing.
func New(o Options) (*Provider, error) {
	if o.Getenv == nil {
		o.Getenv = os.Getenv
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	o.Region = cmp.Or(o.Region, o.Getenv("AWS_REGION"), o.Getenv("AWS_DEFAULT_REGION"))
	switch {
	case o.Cache == "":
		return nil, errors.New("the name of the cache is missing")
	case o.User == "":
		return nil, errors.New("the name of the user is missing")
	case o.Region == "":
		return nil, errors.New("the AWS region is missing, and the environment has no AWS_REGION")
	}
	source, err := newSessionSource(o)
	if err != nil {
		return nil, err
	}
	return &Provider{options: o, signer: v4.NewSigner(), source: source}, nil
}

// Service implements [identity.Provider].
func (p *Provider) Service() identity.Service {
	action := "elasticache:Connect"
	if p.options.MemoryDB {
		action = "memorydb:Connect"
	}
	return identity.Service{
		KeepConnections: connectionLife - connectionMargin,
		DeniedAdvice: fmt.Sprintf("check that the user %s has the authentication mode IAM, that the role may use %s with the user and with %s, "+
			"that the region is %s, and that the clock of this machine is right", p.options.User, action, p.options.Cache, p.options.Region),
	}
}

// Fetch implements [identity.Provider]. It signs with the session of the role, which it renews after half of its time.
func (p *Provider) Fetch(ctx context.Context) (identity.Credentials, error) {
	problem := p.renewSession(ctx)
	now := p.options.Now()
	if p.session.AccessKeyID == "" || p.session.CanExpire && !now.Before(p.session.Expires) {
		return identity.Credentials{}, problem
	}
	token, err := p.sign(ctx, now)
	if err != nil {
		return identity.Credentials{}, fmt.Errorf("sign a token for %s: %w", p.options.Cache, err)
	}
	expires := now.Add(tokenLife)
	if p.session.CanExpire && p.session.Expires.Before(expires) { // the service rejects a token of a session that has ended
		expires = p.session.Expires
	}
	return identity.Credentials{Username: p.options.User, Password: token, Expires: expires, Problem: problem}, nil
}

// renewSession gets a new session of the role if it is time.
func (p *Provider) renewSession(ctx context.Context) error {
	now := p.options.Now()
	if p.session.AccessKeyID != "" {
		if half := p.session.Expires.Sub(p.obtained) / 2; !p.session.CanExpire || now.Sub(p.obtained) < half {
			return nil
		}
	}
	session, err := p.source.retrieve(ctx)
	switch {
	case err != nil:
		return fmt.Errorf("AWS credentials from %s: %w", p.source.name, err)
	case session.CanExpire && !now.Before(session.Expires):
		return fmt.Errorf("AWS credentials from %s have expired at %v", p.source.name, session.Expires)
	}
	p.session, p.obtained = session, now
	return nil
}

// sign returns the address of a signed request without its scheme.
func (p *Provider) sign(ctx context.Context, now time.Time) (string, error) {
	o := &p.options
	query := url.Values{"Action": {"connect"}, "User": {o.User}, "X-Amz-Expires": {strconv.Itoa(int(tokenLife.Seconds()))}}
	service := "elasticache"
	switch {
	case o.MemoryDB:
		service = "memorydb"
	case o.Serverless:
		query.Set("ResourceType", "ServerlessCache")
	}
	address := url.URL{Scheme: "http", Host: strings.ToLower(o.Cache), Path: "/", RawQuery: query.Encode()}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address.String(), http.NoBody)
	if err != nil {
		return "", err
	}
	signed, _, err := p.signer.PresignHTTP(ctx, p.session, request, emptyBodyHash, service, o.Region, now)
	if err != nil {
		return "", err
	}
	return strings.TrimPrefix(signed, "http://"), nil
}
