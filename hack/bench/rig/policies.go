package rig

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"

	descriptorv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/proto"
)

// Domain is the domain of all policies and requests.
const Domain = "bench"

// policy limits one key of descriptors.
type policy struct {
	key   string
	limit int
	lease bool
}

func policies() []policy {
	const never = 1_000_000_000 // is not reached
	return []policy{
		{key: "ip", limit: never},
		{key: "user", limit: never},
		{key: "path", limit: never},
		{key: "spent", limit: 1},
		{key: "leased", limit: never, lease: true},
	}
}

// WritePolicies writes the policies to a new directory in dir, and returns its path. The keys ip, user, path and leased are not denied. A value of
// the key spent is allowed once a day.
func WritePolicies(dir string) (string, error) {
	var b strings.Builder
	for _, p := range policies() {
		fmt.Fprintf(&b, "---\napiVersion: weir.dev/v1alpha1\nkind: RateLimitPolicy\nmetadata: {name: %[1]s, namespace: %[2]s}\n"+
			"spec:\n  axis: Custom\n  limit: %[3]d\n  window: 24h\n  algorithm: SlidingWindowCounter\n  identifier: {descriptor: %[1]s}\n"+
			"  match: {descriptors: [{key: %[1]s}]}\n", p.key, Domain, p.limit)
		if p.lease {
			b.WriteString("  lease: {}\n")
		}
	}
	into := filepath.Join(dir, "policies")
	if err := os.Mkdir(into, 0o755); err != nil {
		return "", err
	}
	return into, os.WriteFile(filepath.Join(into, "policies.yaml"), []byte(b.String()), 0o644)
}

// Message returns a function that encodes requests with one descriptor for each of the policies. Their values are random, below values.
func Message(values int, keys ...string) func(*rand.Rand) []byte {
	return func(random *rand.Rand) []byte {
		request := &ratelimitv3.RateLimitRequest{Domain: Domain}
		for _, key := range keys {
			request.Descriptors = append(request.Descriptors, &descriptorv3.RateLimitDescriptor{
				Entries: []*descriptorv3.RateLimitDescriptor_Entry{{Key: key, Value: fmt.Sprintf("%s-%07d", key, random.IntN(values))}},
			})
		}
		message, err := proto.Marshal(request)
		if err != nil {
			panic(err) // the fields are valid UTF-8
		}
		return message
	}
}
