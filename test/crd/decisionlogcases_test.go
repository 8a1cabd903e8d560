package crd

func decisionLogCases() []schemaCase {
	log := func(text string) string { return `spec: {decisionLog: {` + text + `}}` }
	return []schemaCase{
		{
			at: "spec.decisionLog.denialsPerSecond", kind: "minimum", accepted: log(`denialsPerSecond: 0`), rejected: log(`denialsPerSecond: -1`),
			message: "should be greater than or equal to 0",
		},
		{
			at: "spec.decisionLog.denialsPerSecond", kind: "maximum", accepted: log(`denialsPerSecond: 10000`), rejected: log(`denialsPerSecond: 10001`),
			message: "should be less than or equal to 10000",
		},
		{
			at: "spec.decisionLog.sampleOneIn", kind: "minimum", accepted: log(`sampleOneIn: 0`), rejected: log(`sampleOneIn: -1`),
			message: "should be greater than or equal to 0",
		},
		{
			at: "spec.decisionLog.sampleOneIn", kind: "maximum", accepted: log(`sampleOneIn: 1000000000`), rejected: log(`sampleOneIn: 1000000001`),
			message: "should be less than or equal to 1000000000",
		},
		{
			at: "spec.decisionLog.identifiers", kind: "enum", accepted: log(`identifiers: Omitted`), rejected: log(`identifiers: Plain`),
			message: `Unsupported value: "Plain": supported values: "Counted", "Hashed", "Omitted"`,
		},
	}
}
