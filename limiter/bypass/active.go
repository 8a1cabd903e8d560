package bypass

import "time"

// Active are the bypasses that let requests pass. It is immutable. A nil Active is empty.
type Active struct {
	clock    func() time.Time
	byPolicy map[string]ofPolicy
}

// ofPolicy has, for all identifiers and for each one, the bypass that lasts longest.
type ofPolicy struct {
	everyIdentifier *Bypass
	byIdentifier    map[string]*Bypass
}

// newActive returns nil if no bypass is active.
func newActive(list map[string]*Bypass, clock func() time.Time) *Active {
	a := &Active{clock: clock, byPolicy: map[string]ofPolicy{}}
	now := clock()
	for _, b := range list {
		if !b.IsActive(now) {
			continue
		}
		bypasses := a.byPolicy[b.Policy]
		switch {
		case b.AllIdentifiers:
			bypasses.everyIdentifier = longer(bypasses.everyIdentifier, b)
		case bypasses.byIdentifier == nil:
			bypasses.byIdentifier = map[string]*Bypass{b.Identifier: b}
		default:
			bypasses.byIdentifier[b.Identifier] = longer(bypasses.byIdentifier[b.Identifier], b)
		}
		a.byPolicy[b.Policy] = bypasses
	}
	if len(a.byPolicy) == 0 {
		return nil
	}
	return a
}

func longer(a, b *Bypass) *Bypass {
	if a != nil && (a.ExpiresAt.After(b.ExpiresAt) || a.ExpiresAt.Equal(b.ExpiresAt) && a.Name < b.Name) {
		return a
	}
	return b
}

// Find returns a bypass that lets the identifier pass the policy now, or nil.
func (a *Active) Find(policy, identifier string) *Bypass {
	if a == nil {
		return nil
	}
	bypasses, has := a.byPolicy[policy]
	if !has {
		return nil
	}
	now := a.clock()
	if bypasses.everyIdentifier != nil && now.Before(bypasses.everyIdentifier.ExpiresAt) {
		return bypasses.everyIdentifier
	}
	if b := bypasses.byIdentifier[identifier]; b != nil && now.Before(b.ExpiresAt) {
		return b
	}
	return nil
}

// Len returns the number of policies and identifiers that have a bypass.
func (a *Active) Len() (n int) {
	if a == nil {
		return 0
	}
	for _, bypasses := range a.byPolicy {
		n += len(bypasses.byIdentifier)
		if bypasses.everyIdentifier != nil {
			n++
		}
	}
	return n
}
