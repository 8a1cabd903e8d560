package bypass

import "time"

// Active are the bypasses and blocks that decide requests. It is immutable. A nil Active is empty.
type Active struct {
	clock            func() time.Time
	bypasses, blocks map[string]ofPolicy // by policy
}

// ofPolicy has, for all identifiers and for each one, the bypass that lasts longest.
type ofPolicy struct {
	everyIdentifier *Bypass
	byIdentifier    map[string]*Bypass
}

// newActive returns nil if no bypass is active.
func newActive(list map[string]*Bypass, clock func() time.Time) *Active {
	a := &Active{clock: clock, bypasses: map[string]ofPolicy{}, blocks: map[string]ofPolicy{}}
	now := clock()
	for _, b := range list {
		if !b.IsActive(now) {
			continue
		}
		byPolicy := a.bypasses
		if b.Blocks {
			byPolicy = a.blocks
		}
		bypasses := byPolicy[b.Policy]
		switch {
		case b.AllIdentifiers:
			bypasses.everyIdentifier = longer(bypasses.everyIdentifier, b)
		case bypasses.byIdentifier == nil:
			bypasses.byIdentifier = map[string]*Bypass{b.Identifier: b}
		default:
			bypasses.byIdentifier[b.Identifier] = longer(bypasses.byIdentifier[b.Identifier], b)
		}
		byPolicy[b.Policy] = bypasses
	}
	if len(a.bypasses)+len(a.blocks) == 0 {
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

// Find returns the block that denies the requests of the identifier under the policy now, or else the bypass that lets them pass, or nil.
func (a *Active) Find(policy, identifier string) *Bypass {
	if a == nil {
		return nil
	}
	if b := a.find(a.blocks, policy, identifier); b != nil {
		return b
	}
	return a.find(a.bypasses, policy, identifier)
}

func (a *Active) find(byPolicy map[string]ofPolicy, policy, identifier string) *Bypass {
	bypasses, has := byPolicy[policy]
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

// Left returns the time until b expires, in whole microseconds and at least one.
func (a *Active) Left(b *Bypass) time.Duration {
	return max(b.ExpiresAt.Sub(a.clock()), time.Microsecond).Truncate(time.Microsecond)
}

// Len returns the number of policies and identifiers that have a bypass.
func (a *Active) Len() int {
	if a == nil {
		return 0
	}
	return count(a.bypasses)
}

// Blocks returns the number of policies and identifiers that have a block.
func (a *Active) Blocks() int {
	if a == nil {
		return 0
	}
	return count(a.blocks)
}

func count(byPolicy map[string]ofPolicy) (n int) {
	for _, bypasses := range byPolicy {
		n += len(bypasses.byIdentifier)
		if bypasses.everyIdentifier != nil {
			n++
		}
	}
	return n
}
