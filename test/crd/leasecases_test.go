package crd

// leased returns the change that gives the minimal policy a lease.
func leased(lease string) string {
	return `spec: {window: 10s, lease: {` + lease + `}}`
}

func leaseCases() []schemaCase {
	const (
		shareMessage = "maxShare must be a whole percentage from 1% to 50%"
		ageMessage   = "maxAge must be from 100ms to 10s, such as 1s or 250ms"
	)
	return []schemaCase{
		{
			at: "spec", kind: kindRule, field: "spec.lease",
			accepted: `spec: {lease: {}, algorithm: TokenBucket}`,
			rejected: `spec: {lease: {}, algorithm: LeakyBucket}`,
			message: "lease must not be set with algorithm LeakyBucket, because replicas cannot divide the turns of one queue; " +
				"remove lease or use algorithm TokenBucket",
		},
		{
			at: "spec", kind: kindRule, field: "spec.lease.maxAge",
			accepted: leased("maxAge: 5s"), rejected: leased("maxAge: 5001ms"),
			message: "maxAge must be at most half of the window; use a shorter maxAge or a longer window",
		},
		{at: "spec.lease.maxShare", kind: "maxLength", accepted: leased("maxShare: 50%"), rejected: leased("maxShare: 00010%"), message: "may not be more than 5 bytes"},
		{at: "spec.lease.maxShare", kind: kindRule, accepted: leased("maxShare: 1%"), rejected: leased("maxShare: 51%"), message: shareMessage},
		{
			at: "spec.lease.maxAge", kind: "maxLength", accepted: leased("maxAge: 0m00001s00000ms"), rejected: leased("maxAge: 0h0m00001s00000ms"),
			message: "may not be more than 16 bytes",
		},
		{at: "spec.lease.maxAge", kind: kindRule, accepted: leased("maxAge: 0m1s100ms"), rejected: leased("maxAge: 99ms"), message: ageMessage},
	}
}
