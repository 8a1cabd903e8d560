package crd

func storageCases() []schemaCase {
	return []schemaCase{
		{
			at: "spec.storage", kind: "enum", accepted: `spec: {storage: Compact}`, rejected: `spec: {storage: Small}`,
			message: `Unsupported value: "Small": supported values: "Exact", "Compact"`,
		},
		{
			at: "spec", kind: kindRule, field: "spec.storage",
			accepted: `spec: {storage: Compact, algorithm: FixedWindow}`,
			rejected: `spec: {storage: Compact, algorithm: TokenBucket}`,
			message: "storage must be Exact with this algorithm, because only the counts of a window are small enough; " +
				"use Exact, or algorithm SlidingWindowCounter or FixedWindow",
		},
	}
}
