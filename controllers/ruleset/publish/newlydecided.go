package publish

// NewlyDecided calls add for each policy for which HasDecided may be true and was not for an earlier delivery.
func (d Delivery) NewlyDecided(before Delivery, add func(policy string)) {
	for revision, set := range d.Decided {
		earlier := before.Decided[revision]
		if earlier == set {
			continue
		}
		for i, policy := range set.policies {
			was := earlier != nil && i/8 < len(earlier.bitmap) && earlier.bitmap[i/8]>>(i%8)&1 == 1
			if !was && set.bitmap[i/8]>>(i%8)&1 == 1 {
				add(policy)
			}
		}
	}
}
