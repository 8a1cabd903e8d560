// Package providers opens the providers of tokens. Programs that use passwords only do not import it.
package providers

import (
	"fmt"
	"slices"
	"strings"

	"github.com/weir-dev/weir/limiter/redisclient/identity"
	"github.com/weir-dev/weir/limiter/redisclient/identity/aws"
	"github.com/weir-dev/weir/limiter/redisclient/identity/azure"
	"github.com/weir-dev/weir/limiter/redisclient/identity/google"
)

// Kind is a service and its provider.
type Kind string

// The kinds.
const (
	ElastiCache           Kind = "ElastiCache"
	ElastiCacheServerless Kind = "ElastiCacheServerless"
	MemoryDB              Kind = "MemoryDB"
	Google                Kind = "Google" // Memorystore
	Azure                 Kind = "Azure"  // Azure Managed Redis
)

// Kinds returns all kinds.
func Kinds() []Kind { return []Kind{ElastiCache, ElastiCacheServerless, MemoryDB, Google, Azure} }

// Settings select a provider.
type Settings struct {
	Kind Kind
	// Cache, User and Region of the kinds of AWS are as those of [aws.Options].
	Cache, Region string
	// User is required with the kinds of AWS, optional with Azure, and invalid with Google.
	User string
}

// IsAWS reports whether the kind is a service of AWS.
func (k Kind) IsAWS() bool { return k == ElastiCache || k == ElastiCacheServerless || k == MemoryDB }

// Open returns the provider. It calls nothing.
func Open(s Settings) (identity.Provider, error) {
	switch {
	case !slices.Contains(Kinds(), s.Kind):
		return nil, fmt.Errorf("%q is invalid: must be one of %s", s.Kind, list())
	case !s.Kind.IsAWS() && (s.Cache != "" || s.Region != ""):
		return nil, fmt.Errorf("%s does not use a cache and a region", s.Kind)
	case s.Kind == Google && s.User != "":
		return nil, fmt.Errorf("%s does not use a user: the token names the service account", s.Kind)
	}
	provider, err := s.open()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.Kind, err)
	}
	return provider, nil
}

func (s Settings) open() (identity.Provider, error) {
	switch s.Kind {
	case Google:
		return google.New(google.Options{}), nil
	case Azure:
		return azure.New(azure.Options{User: s.User})
	default:
		return aws.New(aws.Options{MemoryDB: s.Kind == MemoryDB, Serverless: s.Kind == ElastiCacheServerless, Cache: s.Cache, User: s.User, Region: s.Region})
	}
}

func list() string {
	names := make([]string, len(Kinds()))
	for i, kind := range Kinds() {
		names[i] = string(kind)
	}
	return strings.Join(names, ", ")
}
