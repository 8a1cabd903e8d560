package aws

import (
	"cmp"
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"

	"github.com/weir-dev/weir/limiter/redisclient/identity"
)

// sessionSource has AWS credentials. The errors of retrieve contain no secrets. Those of the AWS SDK can, and its clients are larger than all else here,
// see docs/adr/0115-tokens-of-cloud-providers.md.
type sessionSource struct {
	name     string
	retrieve func(context.Context) (awssdk.Credentials, error)
}

// newSessionSource returns the source that the environment describes: keys, the web identity of a service account (IRSA), the endpoint of
// EKS Pod Identity, or else the role of the instance.
func newSessionSource(o Options) (sessionSource, error) {
	env := o.Getenv
	switch {
	case env("AWS_ACCESS_KEY_ID") != "" && env("AWS_SECRET_ACCESS_KEY") != "":
		return sessionSource{"the environment", func(context.Context) (awssdk.Credentials, error) {
			return awssdk.Credentials{
				AccessKeyID: env("AWS_ACCESS_KEY_ID"), SecretAccessKey: env("AWS_SECRET_ACCESS_KEY"), SessionToken: env("AWS_SESSION_TOKEN"),
			}, nil
		}}, nil
	case env("AWS_WEB_IDENTITY_TOKEN_FILE") != "" && env("AWS_ROLE_ARN") != "":
		return webIdentity(o), nil
	case env("AWS_CONTAINER_CREDENTIALS_FULL_URI") != "":
		return podIdentity(env("AWS_CONTAINER_CREDENTIALS_FULL_URI"), env("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"))
	default:
		return instanceRole(cmp.Or(env("AWS_EC2_METADATA_SERVICE_ENDPOINT"), "http://169.254.169.254")), nil
	}
}

// localHosts are those of the endpoints for containers. The AWS SDKs send the token to no other host without TLS.
func localHosts() []string {
	return []string{"169.254.170.2", "169.254.170.23", "fd00:ec2::23", "127.0.0.1", "::1", "localhost"}
}

// podIdentity gets credentials from the agent of EKS Pod Identity.
func podIdentity(endpoint, tokenFile string) (sessionSource, error) {
	u, err := url.Parse(endpoint)
	if err != nil || u.Scheme != "https" && (u.Scheme != "http" || !slices.Contains(localHosts(), u.Hostname())) {
		return sessionSource{}, errors.New("AWS_CONTAINER_CREDENTIALS_FULL_URI must be an https URL, or an http URL of the agent of EKS Pod Identity")
	}
	client := identity.LocalClient()
	return sessionSource{"EKS Pod Identity", func(ctx context.Context) (awssdk.Credentials, error) {
		headers := map[string]string{}
		if tokenFile != "" {
			token, err := readToken(tokenFile)
			if err != nil {
				return awssdk.Credentials{}, err
			}
			headers["Authorization"] = token
		}
		body, err := identity.Request(ctx, client, http.MethodGet, endpoint, headers)
		if err != nil {
			return awssdk.Credentials{}, identity.Explain(err, agentMessage, headers["Authorization"])
		}
		return parseDocument(body)
	}}, nil
}

// instanceRole gets credentials from the metadata service of the instance, with version 2 of its protocol.
func instanceRole(endpoint string) sessionSource {
	client, endpoint := identity.LocalClient(), strings.TrimSuffix(endpoint, "/")+"/latest/"
	const name = "the metadata service of the instance (if the pods have a role of their own, set up EKS Pod Identity or IRSA)"
	return sessionSource{name, func(ctx context.Context) (awssdk.Credentials, error) {
		token, err := identity.Request(ctx, client, http.MethodPut, endpoint+"api/token", map[string]string{"X-Aws-Ec2-Metadata-Token-Ttl-Seconds": "60"})
		if err != nil {
			return awssdk.Credentials{}, err
		}
		headers := map[string]string{"X-Aws-Ec2-Metadata-Token": string(token)}
		const roles = "meta-data/iam/security-credentials/"
		list, err := identity.Request(ctx, client, http.MethodGet, endpoint+roles, headers)
		if err != nil {
			return awssdk.Credentials{}, fmt.Errorf("list the roles: %w", err)
		}
		role, _, _ := strings.Cut(strings.TrimSpace(string(list)), "\n")
		body, err := identity.Request(ctx, client, http.MethodGet, endpoint+roles+url.PathEscape(role), headers)
		if err != nil {
			return awssdk.Credentials{}, fmt.Errorf("credentials of the role %s: %w", role, err)
		}
		return parseDocument(body)
	}}
}

// parseDocument reads the credentials of an agent or a metadata service.
func parseDocument(body []byte) (awssdk.Credentials, error) {
	var reply struct {
		AccessKeyID     string    `json:"AccessKeyId"`
		SecretAccessKey string    `json:"SecretAccessKey"`
		SessionToken    string    `json:"Token"`
		Expiration      time.Time `json:"Expiration"`
	}
	if json.Unmarshal(body, &reply) != nil || reply.AccessKeyID == "" || reply.SecretAccessKey == "" { // a JSON error can quote the reply
		return awssdk.Credentials{}, fmt.Errorf("the reply, of %d bytes, has no credentials", len(body))
	}
	return awssdk.Credentials{
		AccessKeyID: reply.AccessKeyID, SecretAccessKey: reply.SecretAccessKey, SessionToken: reply.SessionToken,
		CanExpire: !reply.Expiration.IsZero(), Expires: reply.Expiration,
	}, nil
}

// agentMessage returns the code and the message of an error reply.
func agentMessage(body []byte) string {
	var reply struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	}
	if json.Unmarshal(body, &reply) != nil {
		return ""
	}
	return reply.Code + " " + reply.Message
}

// readToken reads a token of a service account, which the kubelet renews.
func readToken(file string) (string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	return strings.TrimSpace(string(text)), nil
}

// webIdentity exchanges the token of a service account for credentials of a role.
func webIdentity(o Options) sessionSource {
	endpoint := cmp.Or(o.Getenv("AWS_ENDPOINT_URL_STS"), "https://sts."+o.Region+"."+domain(o.Region))
	role, file := o.Getenv("AWS_ROLE_ARN"), o.Getenv("AWS_WEB_IDENTITY_TOKEN_FILE")
	name := cmp.Or(o.Getenv("AWS_ROLE_SESSION_NAME"), "weir")
	client := identity.InternetClient()
	return sessionSource{"STS for the role " + role, func(ctx context.Context) (awssdk.Credentials, error) {
		token, err := readToken(file)
		if err != nil {
			return awssdk.Credentials{}, err
		}
		body, err := identity.PostForm(ctx, client, endpoint, url.Values{
			"Action": {"AssumeRoleWithWebIdentity"}, "Version": {"2011-06-15"}, "RoleArn": {role}, "RoleSessionName": {name}, "WebIdentityToken": {token},
		})
		if err != nil {
			return awssdk.Credentials{}, identity.Explain(err, stsMessage, token)
		}
		return parseSTS(body)
	}}
}

// domain returns the domain of the endpoints of a region.
func domain(region string) string {
	if strings.HasPrefix(region, "cn-") {
		return "amazonaws.com.cn"
	}
	return "amazonaws.com"
}

// parseSTS reads a reply to AssumeRoleWithWebIdentity.
func parseSTS(body []byte) (awssdk.Credentials, error) {
	var reply struct {
		Credentials struct {
			AccessKeyID     string    `xml:"AccessKeyId"`
			SecretAccessKey string    `xml:"SecretAccessKey"`
			SessionToken    string    `xml:"SessionToken"`
			Expiration      time.Time `xml:"Expiration"`
		} `xml:"AssumeRoleWithWebIdentityResult>Credentials"`
	}
	if err := xml.Unmarshal(body, &reply); err != nil || reply.Credentials.AccessKeyID == "" {
		return awssdk.Credentials{}, fmt.Errorf("the reply of STS, of %d bytes, has no credentials", len(body)) // an XML error can quote the reply
	}
	c := reply.Credentials
	return awssdk.Credentials{
		AccessKeyID: c.AccessKeyID, SecretAccessKey: c.SecretAccessKey, SessionToken: c.SessionToken, CanExpire: true, Expires: c.Expiration,
	}, nil
}

// stsMessage returns the code and the message of an error reply.
func stsMessage(body []byte) string {
	var reply struct {
		Error struct {
			Code    string `xml:"Code"`
			Message string `xml:"Message"`
		} `xml:"Error"`
	}
	if xml.Unmarshal(body, &reply) != nil {
		return ""
	}
	return reply.Error.Code + " " + reply.Error.Message
}
