package crd

func overrunCases() []schemaCase {
	return []schemaCase{
		{
			at: "spec.overrun", kind: "enum", accepted: `spec: {overrun: Deny, algorithm: TokenBucket}`, rejected: `spec: {overrun: Allow}`,
			message: `Unsupported value: "Allow": supported values: "Deny", "Debt"`,
		},
		{
			at: "spec", kind: kindRule, field: "spec.overrun",
			accepted: `spec: {overrun: Debt, algorithm: FixedWindow}`,
			rejected: `spec: {overrun: Debt, algorithm: SlidingWindowLog}`,
			message: "overrun: Debt is valid only with algorithm FixedWindow or SlidingWindowCounter, whose counters can hold more units than the limit; " +
				"use one of these algorithms or remove overrun",
		},
		{
			at: "spec", kind: kindRule, field: "spec.overrun",
			accepted: `spec: {overrun: Debt, algorithm: SlidingWindowCounter}`,
			rejected: `spec: {overrun: Debt, lease: {}}`,
			message:  "overrun: Debt is invalid with lease, because a replica cannot admit a debt from memory; remove overrun or lease",
		},
	}
}
