package server

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/weir-dev/weir/limiter/reply"
)

// claimsOf reads the claims in the header of that name, unless it is empty: a JSON object, as it is or in base64 of either
// alphabet, which is the payload of a JWT. Signatures are not for a limiter to verify: the proxy has.
func claimsOf(h http.Header, name string) (map[string]any, *reply.Problem) {
	if name == "" || len(h[name]) == 0 {
		return nil, nil
	}
	text, bad := one(h, name)
	if bad != nil {
		return nil, bad
	}
	payload := []byte(text)
	if !strings.HasPrefix(text, "{") {
		var err error
		if payload, err = decodeBase64(text); err != nil {
			return nil, badField(name, "is neither a JSON object nor one in base64: give the payload of the token, not all of it")
		}
	}
	if !utf8.Valid(payload) || !json.Valid(payload) {
		return nil, badField(name, "does not hold JSON")
	}
	return readClaims(&jsonText{text: string(payload)}, name)
}

func decodeBase64(text string) ([]byte, error) {
	encoding := base64.RawURLEncoding
	if strings.ContainsAny(text, "+/") {
		encoding = base64.RawStdEncoding
	}
	return encoding.DecodeString(strings.TrimRight(text, "="))
}

// readClaims reads an object of claims, nil if it is empty. Numbers stay as they are written: a long one is an
// identifier as good as any, and has no float64.
func readClaims(text *jsonText, field string) (map[string]any, *reply.Problem) {
	if kind := text.kind(); kind != kindObject {
		return nil, wrongKind(field, kindObject, kind)
	}
	var claims map[string]any
	for name := range text.members() {
		if claims == nil {
			claims = make(map[string]any)
		}
		if _, given := claims[name]; given {
			return nil, badField(field+"."+clip(name), "is given twice")
		}
		claims[name] = text.value()
	}
	return claims, nil
}
