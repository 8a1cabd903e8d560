package crd

func routeMatchingCases() []schemaCase {
	gateways := func(text string) string { return `spec: {routeMatching: {gateways: [` + text + `]}}` }
	of := func(fields string) string { return gateways(`{` + fields + `}`) }
	public := of(`namespace: infra, name: public`)
	const short = "should be at least 1 chars long"
	at := "spec.routeMatching.gateways"
	return []schemaCase{
		{
			at: at, kind: "maxItems", accepted: gateways(repeat(`{namespace: infra, name: public}`, 16)),
			rejected: gateways(repeat(`{namespace: infra, name: public}`, 17)), message: "must have at most 16 items",
		},
		{at: at + "[].namespace", kind: "required", accepted: public, rejected: of(`name: public`), message: "Required value"},
		{at: at + "[].namespace", kind: "minLength", accepted: public, rejected: of(`namespace: "", name: public`), message: short},
		{
			at: at + "[].namespace", kind: "maxLength", accepted: of(`name: public, namespace: ` + letters(63)),
			rejected: of(`name: public, namespace: ` + letters(64)), message: "may not be more than 63 bytes",
		},
		{at: at + "[].name", kind: "required", accepted: public, rejected: of(`namespace: infra`), message: "Required value"},
		{at: at + "[].name", kind: "minLength", accepted: public, rejected: of(`namespace: infra, name: ""`), message: short},
		{
			at: at + "[].name", kind: "maxLength", accepted: of(`namespace: infra, name: ` + letters(253)),
			rejected: of(`namespace: infra, name: ` + letters(254)), message: "may not be more than 253 bytes",
		},
		{
			at: at + "[].sectionName", kind: "minLength", accepted: of(`namespace: infra, name: public, sectionName: h`),
			rejected: of(`namespace: infra, name: public, sectionName: ""`), message: short,
		},
		{
			at: at + "[].sectionName", kind: "maxLength", accepted: of(`namespace: infra, name: public, sectionName: ` + letters(253)),
			rejected: of(`namespace: infra, name: public, sectionName: ` + letters(254)), message: "may not be more than 253 bytes",
		},
	}
}
