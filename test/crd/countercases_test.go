package crd

func counterCases() []schemaCase {
	identifiers := func(text string) string { return `spec: {identifiers: {` + text + `}}` }
	group := func(name string) string { return `spec: {counterGroup: ` + name + `}` }
	const form = "counterGroup must be one or more lower-case letters, digits and hyphens, and begin and end with a letter or digit"
	return []schemaCase{
		{
			at: "spec.identifiers.max", kind: "minimum", accepted: identifiers(`max: 100`), rejected: identifiers(`max: 99`),
			message: "should be greater than or equal to 100",
		},
		{
			at: "spec.identifiers.max", kind: "maximum", accepted: identifiers(`max: 1000000000`), rejected: identifiers(`max: 1000000001`),
			message: "should be less than or equal to 1000000000",
		},
		{
			at: "spec.identifiers.overflow", kind: "enum", accepted: identifiers(`overflow: Deny`), rejected: identifiers(`overflow: Drop`),
			message: `Unsupported value: "Drop": supported values: "Shared", "Deny"`,
		},
		{at: "spec.counterGroup", kind: "maxLength", accepted: group(letters(63)), rejected: group(letters(64)), message: "may not be more than 63 bytes"},
		{at: "spec.counterGroup", kind: kindRule, accepted: group("a-1"), rejected: group(`"shop/a"`), message: form},
		{at: "spec.counterGroup", kind: kindRule, accepted: group("checkout"), rejected: group(`"-a"`), message: form},
	}
}
