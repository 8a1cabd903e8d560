package rules

import (
	"encoding/json"
	"strconv"
	"strings"
)

// FindClaim returns the claim with this name, or the nested claim that the dots in the name lead to, or nil if there is neither. For
// example, "realm.tenant" is the claim "realm.tenant" if it exists, and otherwise the claim "tenant" in "realm".
func FindClaim(claims map[string]any, name string) any {
	if claim, found := claims[name]; found {
		return claim
	}
	for dot := strings.LastIndexByte(name, '.'); dot > 0; dot = strings.LastIndexByte(name[:dot], '.') {
		if inner, ok := claims[name[:dot]].(map[string]any); ok {
			if claim := FindClaim(inner, name[dot+1:]); claim != nil {
				return claim
			}
		}
	}
	return nil
}

// ScalarText returns a claim as an identifier: a string unchanged, a number or a bool in its shortest form, so that every spelling of a
// number is the same identifier. It returns "" for other values, which counts as a missing identifier.
func ScalarText(claim any) string {
	switch v := claim.(type) {
	case string:
		return v
	case bool:
		return strconv.FormatBool(v)
	case json.Number:
		return canonicalNumber(string(v))
	case float64:
		return canonicalNumber(strconv.FormatFloat(v, 'e', -1, 64))
	case float32:
		return canonicalNumber(strconv.FormatFloat(float64(v), 'e', -1, 32))
	case int:
		return canonicalNumber(strconv.Itoa(v))
	case int32:
		return canonicalNumber(strconv.FormatInt(int64(v), 10))
	case int64:
		return canonicalNumber(strconv.FormatInt(v, 10))
	case uint32:
		return canonicalNumber(strconv.FormatUint(uint64(v), 10))
	case uint64:
		return canonicalNumber(strconv.FormatUint(v, 10))
	default:
		return ""
	}
}

// plainDigits is the maximum number of digits of a number without an exponent.
const plainDigits = 21

// canonicalNumber returns the shortest form of a JSON number, for example 1000 for "1e3" and "1000.0", or "" if the text is not a
// number. It works on the digits, because a float64 would map different long numbers to one identifier.
func canonicalNumber(text string) string {
	unsigned, negative := strings.CutPrefix(text, "-")
	mantissa, power, scientific := strings.Cut(strings.ToLower(unsigned), "e")
	whole, fraction, _ := strings.Cut(mantissa, ".")
	exponent := 0
	if scientific {
		n, err := strconv.ParseInt(power, 10, 32)
		if err != nil {
			return ""
		}
		exponent = int(n)
	}
	digits := whole + fraction
	if digits == "" || strings.Trim(digits, "0123456789") != "" {
		return ""
	}
	exponent -= len(fraction)
	digits = strings.TrimLeft(digits, "0")
	trimmed := strings.TrimRight(digits, "0")
	exponent += len(digits) - len(trimmed)
	if trimmed == "" {
		return "0"
	}
	written := formatDecimal(trimmed, exponent)
	if negative {
		return "-" + written
	}
	return written
}

// formatDecimal formats digits · 10^exponent, with a decimal point or an exponent if necessary.
func formatDecimal(digits string, exponent int) string {
	point := len(digits) + exponent // the number of digits before the decimal point
	switch {
	case exponent >= 0 && point <= plainDigits:
		return digits + strings.Repeat("0", exponent)
	case exponent < 0 && point > 0:
		return digits[:point] + "." + digits[point:]
	case exponent < 0 && -exponent <= plainDigits:
		return "0." + strings.Repeat("0", -point) + digits
	default:
		return digits + "e" + strconv.Itoa(exponent)
	}
}

// ClaimedGroups returns the names in the claim "groups", a string or a list of strings.
func ClaimedGroups(claims map[string]any) map[string]bool {
	groups := map[string]bool{}
	switch claim := claims["groups"].(type) {
	case string:
		groups[claim] = true
	case []string:
		for _, name := range claim {
			groups[name] = true
		}
	case []any:
		for _, group := range claim {
			if name, ok := group.(string); ok {
				groups[name] = true
			}
		}
	}
	return groups
}
