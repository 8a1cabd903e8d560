package rules

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// maxClaimDepth bounds how deep maps and lists of claims are converted.
const maxClaimDepth = 32

// WithSubject returns claims with another subject, the claim "sub". It does not modify claims.
func WithSubject(claims map[string]any, subject string) map[string]any {
	with := make(map[string]any, len(claims)+1)
	maps.Copy(with, claims)
	with["sub"] = subject
	return with
}

// NativeClaims returns claims that a Go program passes as rules read them, the types of a decoded JSON object: a value of a named type such as
// `type UserID string` is its underlying string, number or bool, a [fmt.Stringer] such as a UUID is its text, and maps with keys of a string
// type and lists are converted too. It does not modify claims, and returns the map itself if nothing is to be converted. The error names the
// claims of other types, for example a struct or bytes; they remain as they are, and no rule can read them.
func NativeClaims(claims map[string]any) (map[string]any, error) {
	var foreign []string
	converted := claims
	for name, claim := range claims {
		if isNative(claim) {
			continue
		}
		value, readable := nativeClaim(claim, maxClaimDepth)
		if !readable {
			foreign = append(foreign, fmt.Sprintf("%s (%T)", name, claim))
			continue
		}
		if reflect.ValueOf(converted).UnsafePointer() == reflect.ValueOf(claims).UnsafePointer() {
			converted = maps.Clone(claims)
		}
		converted[name] = value
	}
	if foreign == nil {
		return converted, nil
	}
	slices.Sort(foreign)
	return converted, fmt.Errorf("policies cannot read these claims: %s; use strings, numbers, bools, types with a String method, maps or lists of them",
		strings.Join(foreign, ", "))
}

// isNative reports whether rules read a claim as it is, without a look into maps and lists.
func isNative(claim any) bool {
	switch claim.(type) {
	case nil:
		return true
	case map[string]any, []any:
		return false
	default:
		return ScalarText(claim) != "" || claim == ""
	}
}

// nativeClaim converts one claim. It returns false if there is no conversion.
func nativeClaim(claim any, depth int) (any, bool) {
	if isNative(claim) {
		return claim, true
	}
	v := reflect.ValueOf(claim)
	switch v.Kind() { //nolint:exhaustive // the others have no underlying value that rules read
	case reflect.String:
		return v.String(), true
	case reflect.Bool:
		return v.Bool(), true
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return v.Int(), true
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		return v.Uint(), true
	case reflect.Float32, reflect.Float64:
		return v.Float(), true
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() {
			return nil, true
		}
	}
	if s, ok := claim.(fmt.Stringer); ok {
		return s.String(), true
	}
	if depth == 0 {
		return nil, false
	}
	switch v.Kind() { //nolint:exhaustive // see above
	case reflect.Pointer:
		return nativeClaim(v.Elem().Interface(), depth-1)
	case reflect.Map:
		return nativeMap(v, depth-1)
	case reflect.Slice, reflect.Array:
		if v.Type().Elem().Kind() == reflect.Uint8 { // bytes, for example a UUID without a String method: a list of numbers identifies no one
			return nil, false
		}
		return nativeList(v, depth-1)
	default:
		return nil, false
	}
}

func nativeMap(v reflect.Value, depth int) (any, bool) {
	if v.Type().Key().Kind() != reflect.String {
		return nil, false
	}
	converted := make(map[string]any, v.Len())
	for key, element := range v.Seq2() {
		value, readable := nativeClaim(element.Interface(), depth)
		if !readable {
			return nil, false
		}
		converted[key.String()] = value
	}
	return converted, true
}

func nativeList(v reflect.Value, depth int) (any, bool) {
	converted := make([]any, v.Len())
	for i := range converted {
		value, readable := nativeClaim(v.Index(i).Interface(), depth)
		if !readable {
			return nil, false
		}
		converted[i] = value
	}
	return converted, true
}
