package crd

func tracingCases() []schemaCase {
	tracing := func(text string) string { return `spec: {tracing: {` + text + `}}` }
	const mismatch = `should match '^https?://([a-zA-Z0-9]([a-zA-Z0-9_.-]*[a-zA-Z0-9])?|\[[0-9a-fA-F:.]+\]):` +
		`([1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])$'`
	return []schemaCase{
		{
			at: "spec.tracing.endpoint", kind: "minLength", accepted: tracing(`endpoint: "http://a:1"`), rejected: tracing(`endpoint: ""`),
			message: "should be at least 1 chars long",
		},
		{
			at: "spec.tracing.endpoint", kind: "maxLength",
			accepted: tracing(`endpoint: "http://` + letters(253) + `:65535"`), rejected: tracing(`endpoint: "http://` + letters(254) + `:65535"`),
			message: "may not be more than 266 bytes",
		},
		{
			at: "spec.tracing.endpoint", kind: "pattern", accepted: tracing(`endpoint: "https://[2001:db8::1]:4317"`),
			rejected: tracing(`endpoint: "http://collector/v1/traces"`),
			message:  mismatch,
		},
		{
			at: "spec.tracing.endpoint", kind: "pattern", accepted: tracing(`endpoint: "http://collector:65535"`),
			rejected: tracing(`endpoint: "http://collector:65536"`), message: mismatch,
		},
		{
			at: "spec.tracing.endpoint", kind: "pattern", accepted: tracing(`endpoint: "http://collector:1"`),
			rejected: tracing(`endpoint: "http://collector:0"`), message: mismatch,
		},
		{
			at: "spec.tracing.sampleOneIn", kind: "minimum", accepted: tracing(`sampleOneIn: 0`), rejected: tracing(`sampleOneIn: -1`),
			message: "should be greater than or equal to 0",
		},
		{
			at: "spec.tracing.sampleOneIn", kind: "maximum", accepted: tracing(`sampleOneIn: 1000000000`), rejected: tracing(`sampleOneIn: 1000000001`),
			message: "should be less than or equal to 1000000000",
		},
	}
}
