package credentials

import (
	"slices"
	"strings"
)

// isCredentialName reports whether a header, query parameter, claim or descriptor entry with this name can contain credentials, by the words of the
// name. In doubt it does: a value that is hashed without need is only hard to read. docs/reference/ratelimitpolicy.md describes the rule for users.
func isCredentialName(name string) bool {
	name = strings.ToLower(name)
	if name == "x-amzn-oidc-data" || slices.ContainsFunc(credentialParts, func(part string) bool { return strings.Contains(name, part) }) {
		return true
	}
	words := strings.FieldsFunc(name, func(c rune) bool { return c == '-' || c == '_' || c == '.' })
	for i, word := range words {
		switch {
		case slices.Contains(credentialWords, word):
			return true
		case word == "auth" && i == len(words)-1: // X-Auth, but not X-Auth-Request-User
			return true
		case strings.HasSuffix(word, "key") && (word != "key" || i == 0 || !slices.Contains(publicKeys, words[i-1])):
			return true
		}
	}
	return false
}

// credentialParts make a name one of credentials wherever it contains them: X-Amzn-Oidc-Accesstoken has the third.
var credentialParts = []string{ //nolint:gochecknoglobals // a constant that Go cannot write as one
	"assertion", "authorization", "token", "jwt", "secret", "password", "passwd", "passphrase", "passcode", "session", "sessid", "cookie", "credential",
	"bearer", "signature", "saml",
}

// credentialWords are whole words of names. They are too short to be found in other words.
var credentialWords = []string{ //nolint:gochecknoglobals // a constant that Go cannot write as one
	"authentication", "otp", "totp", "sid", "csrf", "xsrf", "pwd", "pass", "pin", "pat", "sig", "hmac",
}

// publicKeys are the words before "key" in the names of headers that only group or repeat requests, and of the entry generic_key of Envoy.
var publicKeys = []string{ //nolint:gochecknoglobals // a constant that Go cannot write as one
	"cache", "generic", "idempotency", "partition", "routing", "shard", "surrogate", "websocket",
}
