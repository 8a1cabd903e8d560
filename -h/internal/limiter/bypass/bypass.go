package bypass

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/weir-dev/weir/go/internal/limiter/rules/policyname"
)

// The bounds of a Bypass.
const (
	// MaxDuration is the longest time between CreatedAt and ExpiresAt.
	MaxDuration = 24 * time.Hour
	// MaxReason is the length of the longest reason, in bytes.
	MaxReason = 1000
	// MaxName is the length of the longest name of a bypass or a policy, in bytes.
	MaxName = 600
	// MaxIdentifier is the length of the longest identifier, in bytes.
	MaxIdentifier = 4096
	// MaxUser is the length of the longest name of a user, in bytes.
	MaxUser = 1000
	// clockSkew is how far the clock of the process that creates a bypass can be ahead.
	clockSkew = 5 * time.Minute
)

// Bypass lets an identifier pass a policy, or blocks it, from its creation until it expires or ends.
type Bypass struct {
	// Name is unique among the bypasses of the processes that share counters.
	Name   string `json:"name"`
	Policy string `json:"policy"`
	// Blocks is true if the policy denies the requests of the identifier. Otherwise, they pass the policy uncounted.
	Blocks bool `json:"blocks,omitempty"`
	// Identifier as it is counted: secrets are hashed. If AllIdentifiers is true it is empty.
	Identifier     string    `json:"identifier,omitempty"`
	AllIdentifiers bool      `json:"allIdentifiers,omitempty"`
	Reason         string    `json:"reason"`
	CreatedBy      string    `json:"createdBy"`
	CreatedAt      time.Time `json:"createdAt"`
	ExpiresAt      time.Time `json:"expiresAt"`
	// EndedBy is the user that has ended the bypass before it expired, or "".
	EndedBy string `json:"endedBy,omitempty"`
}

// Kind is block or bypass.
func (b *Bypass) Kind() string {
	if b.Blocks {
		return "block"
	}
	return "bypass"
}

// IsActive reports whether b decides requests at that time.
func (b *Bypass) IsActive(now time.Time) bool { return b.EndedBy == "" && now.Before(b.ExpiresAt) }

// Scope is the namespace of the policy, or [policyname.Cluster].
func (b *Bypass) Scope() string {
	scope, _ := policyname.Split(b.Policy)
	return scope
}

// place describes the policies of the same scope.
func (b *Bypass) place() string {
	if b.Scope() == policyname.Cluster {
		return "of the cluster"
	}
	return "of namespace " + b.Scope()
}

// Validate returns an error if b is not within the bounds: another process can have written it.
func (b *Bypass) Validate(now time.Time) error {
	lasts := b.ExpiresAt.Sub(b.CreatedAt)
	switch {
	case b.Name == "" || len(b.Name) > MaxName:
		return fmt.Errorf("the name of a bypass must have 1 to %d bytes", MaxName)
	case b.Policy == "" || len(b.Policy) > MaxName:
		return fmt.Errorf("the policy of a bypass must have 1 to %d bytes", MaxName)
	case (b.Identifier == "") != b.AllIdentifiers:
		return errors.New("a bypass must have an identifier, or allIdentifiers")
	case len(b.Identifier) > MaxIdentifier:
		return fmt.Errorf("the identifier must have at most %d bytes", MaxIdentifier)
	case strings.TrimSpace(b.Reason) == "" || len(b.Reason) > MaxReason:
		return fmt.Errorf("the reason must have 1 to %d bytes", MaxReason)
	case b.CreatedBy == "":
		return errors.New("a bypass must name the user that has created it")
	case len(b.CreatedBy) > MaxUser || len(b.EndedBy) > MaxUser:
		return fmt.Errorf("the name of a user must have at most %d bytes", MaxUser)
	case lasts <= 0 || lasts > MaxDuration:
		return fmt.Errorf("a bypass must last from 1s to %v, got %v", MaxDuration, lasts)
	case b.CreatedAt.After(now.Add(clockSkew)):
		return fmt.Errorf("the bypass was created at %v, which is in the future: compare the clocks", b.CreatedAt.Format(time.RFC3339))
	default:
		return nil
	}
}
