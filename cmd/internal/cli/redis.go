package cli

import (
	"fmt"
	"os"
	"strings"

	"github.com/weir-dev/weir/limiter"
)

// RedisPrefixHelp describes the flag --prefix.
const RedisPrefixHelp = "prefix of all keys and channels in Redis; must not contain braces"

// ValidatePrefix rejects a prefix with braces: they would decide the Redis Cluster slot of all keys.
func ValidatePrefix(prefix string) error {
	if strings.ContainsAny(prefix, "{}") {
		return fmt.Errorf("--prefix %q is invalid: must not contain { or }, because they would put all keys into one slot of a Redis Cluster", prefix)
	}
	return nil
}

// ReadHashKey reads the file of the flag --hash-key. It returns nil if file is empty.
func ReadHashKey(file string) (*limiter.HashKey, error) {
	if file == "" {
		return nil, nil //nolint:nilnil // nil is no key
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("--hash-key: %w", err)
	}
	key, err := limiter.NewHashKey(text)
	if err != nil {
		return nil, fmt.Errorf("--hash-key: %s: %w", file, err)
	}
	return key, nil
}

// TrimNewline removes the line break that editors add at the end of a file.
func TrimNewline(text []byte) string { return strings.TrimRight(string(text), "\r\n") }
