package credentials_test

import (
	"strings"
	"testing"

	"github.com/weir-dev/weir/limiter/rules/credentials"
)

func TestCredentials_KnowsNames(t *testing.T) {
	var names credentials.Names
	const secret = "authorization Authorization Proxy-Authorization x-authorization x-forwarded-authorization x-original-authorization x-auth " +
		"X-Basic-Auth x-authentication cookie X-Cookie apikey api-key api_key X-API-Key x-apikey x-goog-api-key dd-api-key ocp-apim-subscription-key " +
		"subscription-key x-auth-key x-access-key x-accesskey x-functions-key key token Private-Token X-Auth-Token x-access-token x-gitlab-token " +
		"x-vault-token x-amz-security-token x-auth-request-access-token x-forwarded-access-token x-session-token x-api-token x-token x-id-token " +
		"x-shopify-access-token x-github-token x-csrf-token X-CSRF x-amzn-oidc-accesstoken x-amzn-oidc-data cf-access-jwt-assertion " +
		"cf-access-client-secret x-goog-iap-jwt-assertion x-jwt-assertion x-jwt x-secret x-password x-client.secret x-session-id sessionid " +
		"x-sid x-phpsessid x-otp x-hub-signature-256 x-credentials x-bearer " +
		"api_key apiKey user_key userKey access_token session_state SAMLResponse pwd pin sig X-Hmac x-goog-signature"
	const public = "x-tenant-id x-user-id x-forwarded-for x-forwarded-user user-agent accept x-auth-request-user x-auth-request-email " +
		"x-authenticated-user x-amzn-oidc-identity x-amzn-trace-id x-goog-authenticated-user-email idempotency-key X-Idempotency-Key surrogate-key " +
		"x-cache-key sec-websocket-key x-routing-key x-keys-id x-resident x-inside x-client-id x-request-id generic_key header_match remote_address " +
		"masked_remote_address destination_cluster PATH sub azp email tenant plan shipping sigma"
	for list, want := range map[string]bool{secret: true, public: false} {
		for name := range strings.FieldsSeq(list) {
			if got := names.Name(name); got != want {
				t.Errorf("%s: %t, want %t", name, got, want)
			}
		}
	}
	if names.Name("") {
		t.Error("a header without a name is secret")
	}
}
