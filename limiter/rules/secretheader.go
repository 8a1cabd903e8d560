package rules

import (
	"slices"
	"strings"
)

// IsSecretHeader reports whether a request header can contain credentials, by the words of its name. In doubt it does: a value that is hashed
// without need is only hard to read. docs/reference/ratelimitpolicy.md describes the rule for users.
func IsSecretHeader(name string) bool {
	name = strings.ToLower(name)
	if name == "x-amzn-oidc-data" || slices.ContainsFunc(secretParts, func(part string) bool { return strings.Contains(name, part) }) {
		return true
	}
	words := strings.FieldsFunc(name, func(c rune) bool { return c == '-' || c == '_' || c == '.' })
	for i, word := range words {
		switch {
		case slices.Contains(secretWords, word):
			return true
		case word == "auth" && i == len(words)-1: // X-Auth, but not X-Auth-Request-User
			return true
		case strings.HasSuffix(word, "key") && (word != "key" || i == 0 || !slices.Contains(publicKeys, words[i-1])):
			return true
		}
	}
	return false
}

// secretParts make a header secret wherever its name contains them: X-Amzn-Oidc-Accesstoken has the third.
var secretParts = []string{ //nolint:gochecknoglobals // a constant that Go cannot write as one
	"assertion", "authorization", "token", "jwt", "secret", "password", "passwd", "passphrase", "session", "sessid", "cookie", "credential", "bearer",
	"signature",
}

// secretWords are whole words of names. They are too short to be found in other words.
var secretWords = []string{"authentication", "otp", "totp", "sid", "csrf", "xsrf"} //nolint:gochecknoglobals // a constant that Go cannot write as one

// publicKeys are the words before "key" in the names of headers that only group or repeat requests.
var publicKeys = []string{"cache", "idempotency", "partition", "routing", "shard", "surrogate", "websocket"} //nolint:gochecknoglobals // a constant
