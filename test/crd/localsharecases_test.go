package crd

func localShareCases() []schemaCase {
	return []schemaCase{
		{
			at: "spec.localShare", kind: "enum", accepted: `spec: {localShare: Whole}`, rejected: `spec: {localShare: Half}`,
			message: `Unsupported value: "Half": supported values: "Equal", "Whole"`,
		},
		{
			at: "spec", kind: kindRule, field: "spec.localShare",
			accepted: `spec: {localShare: Whole, onStoreFailure: Local}`,
			rejected: `spec: {localShare: Whole, onStoreFailure: Deny}`,
			message: "localShare: Whole is valid only with onStoreFailure: Local, because the other values count nothing on the replicas; " +
				"remove localShare or use onStoreFailure: Local",
		},
	}
}
