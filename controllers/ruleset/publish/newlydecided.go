package publish

// NewlyDecided calls add for each policy for which HasDecided may be true and was not for an earlier delivery.
func (d Delivery) NewlyDecided(before Delivery, add func(policy string)) {
	for revision, set := range d.Decided {
		earlier := before.Decided[revision]
		if earlier == set {
			continue
		}
		for i, policy := range set.policies {
			was := earlier != nil && earlier.has(i)
			if set.has(i) && !was && !before.HasDecided(policy, set.rules[policy]) {
				add(policy)
			}
		}
	}
}

// has reports whether the rule of a policy, by its index in policies, has decided a request.
func (d *DecidedRules) has(i int) bool { return i/8 < len(d.bitmap) && d.bitmap[i/8]>>(i%8)&1 == 1 }
