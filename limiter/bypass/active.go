package bypass

import "time"

// Active are the bypasses that let requests pass. It is immutable. A nil Active is empty.
type Active struct {
	clock    func() time.Time
	byPolicy map[string]ofPolicy
}

// ofPolicy has, for all identifiers and for each one, the bypass that lasts longest.
type ofPolicy struct {
	all          *Bypass
	byIdentifier map[string]*Bypass
}

// newActive returns nil if no bypass is active.
func newActive(list map[string]*Bypass, clock func() time.Time) *Active {
	a := &Active{clock: clock, byPolicy: map[string]ofPolicy{}}
	now := clock()
	for _, b := range list {
		if !b.IsActive(now) {
			continue
		}
		of := a.byPolicy[b.Policy]
		switch {
		case b.AllIdentifiers:
			of.all = longer(of.all, b)
		case of.byIdentifier == nil:
			of.byIdentifier = map[string]*Bypass{b.Identifier: b}
		default:
			of.byIdentifier[b.Identifier] = longer(of.byIdentifier[b.Identifier], b)
		}
		a.byPolicy[b.Policy] = of
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
	of, has := a.byPolicy[policy]
	if !has {
		return nil
	}
	now := a.clock()
	if of.all != nil && now.Before(of.all.ExpiresAt) {
		return of.all
	}
	if b := of.byIdentifier[identifier]; b != nil && now.Before(b.ExpiresAt) {
		return b
	}
	return nil
}

// Len returns the number of policies and identifiers that have a bypass.
func (a *Active) Len() (n int) {
	if a == nil {
		return 0
	}
	for _, of := range a.byPolicy {
		n += len(of.byIdentifier)
		if of.all != nil {
			n++
		}
	}
	return n
}
