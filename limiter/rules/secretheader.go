package rules

import "strings"

// IsSecretHeader reports whether a request header contains credentials.
func IsSecretHeader(name string) bool {
	switch strings.ToLower(name) {
	case "authorization", "proxy-authorization", "cookie",
		"api-key", "apikey", "x-api-key", "x-apikey", "x-goog-api-key", "ocp-apim-subscription-key",
		"private-token", "x-auth-token", "x-access-token", "x-gitlab-token", "x-vault-token", "x-amz-security-token",
		"x-auth-request-access-token", "x-forwarded-access-token", "x-session-token":
		return true
	default:
		return false
	}
}
