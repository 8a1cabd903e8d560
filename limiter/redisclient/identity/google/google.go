// Package google authenticates with Memorystore: the password of a connection is an access token of the service account of the pod or instance, as
// https://cloud.google.com/memorystore/docs/cluster/about-iam-auth describes it.
package google

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"os"
	"time"

	"github.com/weir-dev/weir/limiter/redisclient/identity"
)

// scope is that of all Google Cloud services. What the account may do depends on its roles.
const scope = "https://www.googleapis.com/auth/cloud-platform"

// Options are those of a [Provider]. The zero value is ready to use.
type Options struct {
	// Now returns the time; nil for the clock of the machine.
	Now func() time.Time
}

// Provider implements [identity.Provider].
type Provider struct {
	client  *http.Client
	address string
	now     func() time.Time
}

// New returns a Provider, which asks the metadata server of the node. The variable GCE_METADATA_HOST names another host, as for Google's libraries.
func New(o Options) *Provider {
	p := &Provider{
		client: identity.LocalClient(), now: time.Now,
		address: "http://" + cmp.Or(os.Getenv("GCE_METADATA_HOST"), "169.254.169.254") +
			"/computeMetadata/v1/instance/service-accounts/default/token?scopes=" + scope,
	}
	if o.Now != nil {
		p.now = o.Now
	}
	return p
}

// Service implements [identity.Provider]. Memorystore keeps connections whose token has expired, and bounds the rate of new ones.
func (*Provider) Service() identity.Service {
	return identity.Service{
		KeepConnections: math.MaxInt64,
		DeniedAdvice: "check that the instance has the authorization mode IAM, and that the service account has a role with the permission to connect, " +
			"such as roles/redis.dbConnectionUser or roles/memorystore.dbConnectionUser",
	}
}

// Fetch implements [identity.Provider].
func (p *Provider) Fetch(ctx context.Context) (identity.Credentials, error) {
	asked := p.now()
	body, err := identity.Request(ctx, p.client, http.MethodGet, p.address, map[string]string{"Metadata-Flavor": "Google"})
	if err != nil {
		return identity.Credentials{}, fmt.Errorf("access token from the metadata server: %w", identity.Explain(err, message))
	}
	var reply struct {
		AccessToken string `json:"access_token"`
		ExpiresIn   int64  `json:"expires_in"` // seconds
	}
	if json.Unmarshal(body, &reply) != nil || reply.AccessToken == "" || reply.ExpiresIn <= 0 { // a JSON error can quote the reply
		return identity.Credentials{}, errors.New("the reply of the metadata server has no access token")
	}
	// The token names the account, so the user is always the same.
	return identity.Credentials{Username: "default", Password: reply.AccessToken, Expires: asked.Add(time.Duration(reply.ExpiresIn) * time.Second)}, nil
}

// message returns the text of an error reply. A reply in JSON is not an error of the metadata server, and can contain a token.
func message(body []byte) string {
	if json.Valid(body) {
		return ""
	}
	return string(body)
}
