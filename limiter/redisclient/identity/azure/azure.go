// Package azure authenticates with Azure Managed Redis and Azure Cache for Redis: the password of a connection is a token of Microsoft Entra ID, as
// https://learn.microsoft.com/azure/redis/entra-for-authentication describes it.
package azure

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/weir-dev/weir/limiter/redisclient/identity"
)

// resource is what the token is for.
const resource = "https://redis.azure.com"

// Options are those of a [Provider]. The zero value is ready to use.
type Options struct {
	// User is the object ID of the identity. If empty, it is read from the token.
	User string
	// Getenv returns variables of the environment; nil for those of the process.
	Getenv func(string) string
	// Now returns the time; nil for the clock of the machine.
	Now func() time.Time
}

// Provider implements [identity.Provider].
type Provider struct {
	options Options
	name    string
	token   func(context.Context) (body []byte, err error)
}

// New returns a Provider. With the variables of workload identity, it exchanges the token of the service account, and otherwise it uses the managed
// identity of the node.
func New(o Options) (*Provider, error) {
	if o.Getenv == nil {
		o.Getenv = os.Getenv
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Getenv("AZURE_FEDERATED_TOKEN_FILE") == "" {
		return &Provider{options: o, name: "the managed identity of the node", token: managedIdentity(o.Getenv)}, nil
	}
	exchange, err := workloadIdentity(o.Getenv)
	return &Provider{options: o, name: "Microsoft Entra ID", token: exchange}, err
}

// managedIdentity asks the metadata service of the node.
func managedIdentity(env func(string) string) func(context.Context) ([]byte, error) {
	query := url.Values{"api-version": {"2018-02-01"}, "resource": {resource}}
	if id := env("AZURE_CLIENT_ID"); id != "" {
		query.Set("client_id", id)
	}
	host := strings.TrimSuffix(cmp.Or(env("AZURE_POD_IDENTITY_AUTHORITY_HOST"), "http://169.254.169.254"), "/")
	client := identity.LocalClient()
	return func(ctx context.Context) ([]byte, error) {
		body, err := identity.Request(ctx, client, http.MethodGet, host+"/metadata/identity/oauth2/token?"+query.Encode(), map[string]string{"Metadata": "true"})
		return body, identity.Explain(err, entraMessage)
	}
}

// workloadIdentity exchanges the token of the service account, which the kubelet renews, for one of Entra ID.
func workloadIdentity(env func(string) string) (func(context.Context) ([]byte, error), error) {
	file, id, tenant := env("AZURE_FEDERATED_TOKEN_FILE"), env("AZURE_CLIENT_ID"), env("AZURE_TENANT_ID")
	if id == "" || tenant == "" {
		return nil, errors.New("the environment has AZURE_FEDERATED_TOKEN_FILE, but not both AZURE_CLIENT_ID and AZURE_TENANT_ID: " +
			"annotate the service account with azure.workload.identity/client-id")
	}
	host := strings.TrimSuffix(cmp.Or(env("AZURE_AUTHORITY_HOST"), "https://login.microsoftonline.com"), "/")
	client := identity.InternetClient()
	return func(ctx context.Context) ([]byte, error) {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		assertion := strings.TrimSpace(string(text))
		body, err := post(ctx, client, host+"/"+url.PathEscape(tenant)+"/oauth2/v2.0/token", id, assertion)
		return body, identity.Explain(err, entraMessage, assertion)
	}, nil
}

func post(ctx context.Context, client *http.Client, endpoint, id, assertion string) ([]byte, error) {
	return identity.PostForm(ctx, client, endpoint, url.Values{
		"grant_type": {"client_credentials"}, "client_id": {id}, "scope": {resource + "/.default"}, "client_assertion": {assertion},
		"client_assertion_type": {"urn:ietf:params:oauth:client-assertion-type:jwt-bearer"},
	})
}

// entraMessage returns the code and the description of an error reply.
func entraMessage(body []byte) string {
	var reply struct {
		Error       string `json:"error"`
		Description string `json:"error_description"`
	}
	if json.Unmarshal(body, &reply) != nil {
		return ""
	}
	return reply.Error + " " + reply.Description
}

// Service implements [identity.Provider]. The service closes a connection whose token has expired.
func (p *Provider) Service() identity.Service {
	return identity.Service{DeniedAdvice: "check that the identity is a user of the cache with an access policy, and that the user is its object ID"}
}

// Fetch implements [identity.Provider].
func (p *Provider) Fetch(ctx context.Context) (identity.Credentials, error) {
	asked := p.options.Now()
	body, err := p.token(ctx)
	if err != nil {
		return identity.Credentials{}, fmt.Errorf("token from %s: %w", p.name, err)
	}
	var reply struct {
		AccessToken string      `json:"access_token"`
		ExpiresIn   json.Number `json:"expires_in"` // seconds; the metadata service writes a string
	}
	seconds := int64(0)
	if json.Unmarshal(body, &reply) == nil { // a JSON error can quote the reply
		seconds, _ = strconv.ParseInt(reply.ExpiresIn.String(), 10, 64)
	}
	if reply.AccessToken == "" || seconds <= 0 {
		return identity.Credentials{}, fmt.Errorf("the reply of %s has no token", p.name)
	}
	user := cmp.Or(p.options.User, objectID(reply.AccessToken))
	if user == "" {
		return identity.Credentials{}, fmt.Errorf("the token from %s names no object ID: set the user", p.name)
	}
	return identity.Credentials{Username: user, Password: reply.AccessToken, Expires: asked.Add(time.Duration(seconds) * time.Second)}, nil
}

// objectID returns the claim oid of a token, or "". The service verifies the token.
func objectID(token string) string {
	parts := strings.Split(token, ".")
	if len(parts) < 2 {
		return ""
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return ""
	}
	var claims struct {
		ObjectID string `json:"oid"`
	}
	_ = json.Unmarshal(payload, &claims)
	return claims.ObjectID
}
