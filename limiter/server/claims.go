package server

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/weir-dev/weir/limiter/reply"
)

// headerClaims reads the claims in the named header, nil if name is empty or the header is absent. The value is a JSON object,
// either plain or in base64 with either alphabet, as in the payload of a JWT. The proxy has verified the signature.
func headerClaims(h http.Header, name string) (map[string]any, *reply.Problem) {
	if name == "" || len(h[name]) == 0 {
		return nil, nil
	}
	text, bad := singleValue(h, name)
	if bad != nil {
		return nil, bad
	}
	payload := []byte(text)
	if !strings.HasPrefix(text, "{") {
		var err error
		if payload, err = decodeBase64(text); err != nil {
			return nil, badField(name, "must be a JSON object, plain or in base64: send only the payload of the token, not the whole token")
		}
	}
	if !utf8.Valid(payload) || !json.Valid(payload) {
		return nil, badField(name, "does not contain valid JSON")
	}
	return parseClaims(&jsonText{text: string(payload)}, name)
}

func decodeBase64(text string) ([]byte, error) {
	encoding := base64.RawURLEncoding
	if strings.ContainsAny(text, "+/") {
		encoding = base64.RawStdEncoding
	}
	return encoding.DecodeString(strings.TrimRight(text, "="))
}

// parseClaims reads an object of claims, nil if it is empty. Numbers keep their text: a long number is a valid identifier and can
// be too long for a float64.
func parseClaims(text *jsonText, field string) (map[string]any, *reply.Problem) {
	if kind := text.kind(); kind != kindObject {
		return nil, wrongKind(field, kindObject, kind)
	}
	var claims map[string]any
	for name := range text.members() {
		if claims == nil {
			claims = make(map[string]any)
		}
		if _, given := claims[name]; given {
			return nil, badField(field+"."+clip(name), "is present more than once")
		}
		claims[name] = text.value()
	}
	return claims, nil
}
