package crd

import (
	"fmt"
	"strings"
)

// denial returns the change that gives the minimal policy a denial with the fields.
func denial(fields string) string { return `spec: {denial: {` + fields + `}}` }

func denialCases() []schemaCase {
	headers := func(list ...string) string { return denial(`headers: [` + strings.Join(list, ", ") + `]`) }
	header := func(name, value string) string { return fmt.Sprintf(`{name: %q, value: %q}`, name, value) }
	var nine []string
	for i := range 9 {
		nine = append(nine, header(fmt.Sprintf("x-%d", i), "v"))
	}
	const (
		at       = "spec.denial.headers[]"
		reserved = "this header must not be set, because Weir or a proxy sets it or acts on it, or it affects more than this response; " +
			"use a header of your own that begins with X-"
	)
	return []schemaCase{
		{
			at: "spec", kind: kindRule, field: "spec.denial",
			accepted: kubernetesMatch(``, `denial: {message: ask the platform team}, `), rejected: kubernetesMatch(``, `denial: {status: 403}, `),
			message: "denial must have only message with match.kubernetes, because the API server sets the rest of the response; " +
				"remove status, contentType and headers",
		},
		{at: "spec.denial", kind: "minProperties", accepted: denial(`status: 429`), rejected: denial(``), message: "should have at least 1 properties"},
		{
			at: "spec.denial", kind: kindRule, field: "spec.denial.contentType",
			accepted: denial(`message: m, contentType: text/plain`), rejected: denial(`contentType: text/plain`),
			message: "contentType is valid only with message, because it describes the message; set message or remove contentType",
		},
		{
			at: "spec.denial.status", kind: "enum", accepted: denial(`status: 402`), rejected: denial(`status: 200`),
			message: `Unsupported value: 200: supported values: "402", "403", "404", "429", "503"`,
		},
		{at: "spec.denial.message", kind: "minLength", accepted: denial(`message: m`), rejected: denial(`message: ""`), message: "should be at least 1 chars long"},
		{
			at: "spec.denial.message", kind: "maxLength", accepted: denial(`message: ` + strings.Repeat("m", 2048)), rejected: denial(`message: ` + strings.Repeat("m", 2049)),
			message: "may not be more than 2048 bytes",
		},
		{
			at: "spec.denial.message", kind: kindRule, accepted: denial(`message: "two\r\n\tlines"`), rejected: denial(`message: "a\u001b"`),
			message: "message must not contain control characters except tabs and line breaks",
		},
		{
			at: "spec.denial.message", kind: kindRule, accepted: denial(`message: "όριο – לא"`), rejected: denial(`message: "\u202e"`),
			message: "message must not contain control characters except tabs and line breaks",
		},
		{
			at: "spec.denial.contentType", kind: "maxLength",
			accepted: denial(`message: m, contentType: application/` + strings.Repeat("m", 111) + `+json`),
			rejected: denial(`message: m, contentType: application/` + strings.Repeat("m", 112) + `+json`),
			message:  "may not be more than 128 bytes",
		},
		{
			at: "spec.denial.contentType", kind: kindRule,
			accepted: denial(`message: m, contentType: application/problem+json; charset=utf-8`), rejected: denial(`message: m, contentType: text/html`),
			message: "contentType must be text/plain, application/json or application/…+json, optionally with ; charset=utf-8",
		},
		{at: "spec.denial.headers", kind: "minItems", accepted: headers(nine[0]), rejected: headers(), message: "should have at least 1 items"},
		{at: "spec.denial.headers", kind: "maxItems", accepted: headers(nine[:8]...), rejected: headers(nine...), message: "Too many: 9: must have at most 8 items"},
		{
			at: "spec.denial.headers", kind: kindRule, accepted: headers(header("X-A", "v"), header("X-B", "v")),
			rejected: headers(header("X-A", "v"), header("x-a", "w")), message: "headers must have unique names; remove the repeated one",
		},
		{at: at + ".name", kind: "required", accepted: headers(header("X-A", "v")), rejected: headers(`{value: v}`), message: "Required value"},
		{
			at: at + ".name", kind: "maxLength", accepted: headers(header("x-"+strings.Repeat("x", 62), "v")), rejected: headers(header("x-"+strings.Repeat("x", 63), "v")),
			message: "may not be more than 64 bytes",
		},
		{
			at: at + ".name", kind: kindRule, accepted: headers(header("X-A", "v")), rejected: headers(header("X A", "v")),
			message: "a header name must be one or more letters, digits or characters of !#$%&*+-.^_|~",
		},
		{at: at + ".name", kind: kindRule, accepted: headers(header("X-Rate", "v")), rejected: headers(header("X-RateLimit-Reset", "v")), message: reserved},
		{at: at + ".name", kind: kindRule, accepted: headers(header("Link", "v")), rejected: headers(header("Location", "v")), message: reserved},
		{at: at + ".name", kind: kindRule, accepted: headers(header("X-Access", "v")), rejected: headers(header("X-Accel-Redirect", "v")), message: reserved},
		{at: at + ".value", kind: "required", accepted: headers(header("X-A", "v")), rejected: headers(`{name: X-A}`), message: "Required value"},
		{
			at: at + ".value", kind: "maxLength", accepted: headers(header("X-A", strings.Repeat("v", 256))), rejected: headers(header("X-A", strings.Repeat("v", 257))),
			message: "may not be more than 256 bytes",
		},
		{
			at: at + ".value", kind: kindRule, accepted: headers(header("X-A", "v")), rejected: headers(header("X-A", "v ")),
			message: "the value of a header must be printable ASCII characters, without spaces at the ends",
		},
	}
}
