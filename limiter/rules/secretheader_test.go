package rules_test

import (
	"testing"

	"github.com/weir-dev/weir/limiter/rules"
)

func TestIsSecretHeader_KnowsCredentials(t *testing.T) {
	for name, want := range map[string]bool{
		"authorization": true, "Authorization": true, "Proxy-Authorization": true, "cookie": true, "X-API-Key": true, "apikey": true, "X-Auth-Token": true,
		"x-forwarded-access-token": true, "x-amz-security-token": true,
		"x-tenant-id": false, "x-user-id": false, "x-forwarded-for": false, "user-agent": false, "": false,
	} {
		if got := rules.IsSecretHeader(name); got != want {
			t.Errorf("%s: %t, want %t", name, got, want)
		}
	}
}
