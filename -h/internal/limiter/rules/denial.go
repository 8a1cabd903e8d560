package rules

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Denial is the response to a request that a rule denies. An absent field has its default.
type Denial struct {
	Status int `json:"status,omitempty"` // HTTP status code, 429 by default
	// Message is the body of the response. By default it is a problem document. A rule for writes to the Kubernetes API has only a Message.
	Message     string `json:"message,omitempty"`
	ContentType string `json:"contentType,omitempty"` // of Message, DefaultContentType by default
	// Headers are sorted by name. Their names are unique.
	Headers []DenialHeader `json:"headers,omitempty"`
}

// DenialHeader is a header of a Denial.
type DenialHeader struct {
	Name  string `json:"name"` // lower case
	Value string `json:"value"`
}

// The defaults of a Denial.
const (
	DefaultDenialStatus = 429
	DefaultContentType  = "text/plain; charset=utf-8"
)

// MaxDenialHeaders is the largest number of headers of a Denial.
const MaxDenialHeaders = 8

// The bounds of a Denial, in bytes.
const (
	maxDenialMessage     = 4 * 2048 // 2048 characters
	maxDenialContentType = 128
	maxDenialHeaderName  = 64
	maxDenialHeaderValue = 256
)

// DenialStatuses returns the statuses that a Denial can have.
func DenialStatuses() []int { return []int{402, 403, 404, 429, 503} }

// StatusCode returns the HTTP status code.
func (d *Denial) StatusCode() int { return cmp.Or(d.Status, DefaultDenialStatus) }

// MediaType returns the Content-Type of Message.
func (d *Denial) MediaType() string { return cmp.Or(d.ContentType, DefaultContentType) }

// Validate returns an error if the response could break a connection, or replace headers that Weir sets.
func (d *Denial) Validate() error {
	if err := ValidateDenialStatus(d.StatusCode()); err != nil {
		return err
	}
	if err := ValidateDenialMessage(d.Message); err != nil {
		return err
	}
	if err := ValidateDenialContentType(d.MediaType()); err != nil {
		return err
	}
	if len(d.Headers) > MaxDenialHeaders {
		return fmt.Errorf("a denial must have at most %d headers, got %d", MaxDenialHeaders, len(d.Headers))
	}
	for i, h := range d.Headers {
		if err := errors.Join(ValidateDenialHeaderName(h.Name), ValidateDenialHeaderValue(h.Value)); err != nil {
			return err
		}
		if h.Name != strings.ToLower(h.Name) {
			return fmt.Errorf("the headers of a denial must be in lower case, got %q", h.Name)
		}
		if i > 0 && d.Headers[i-1].Name >= h.Name {
			return fmt.Errorf("the headers of a denial must be sorted and unique, but %q follows %q", h.Name, d.Headers[i-1].Name)
		}
	}
	return nil
}

// ValidateDenialStatus returns an error if a Denial cannot have the status.
func ValidateDenialStatus(status int) error {
	if slices.Contains(DenialStatuses(), status) {
		return nil
	}
	return fmt.Errorf("unsupported status %d; supported statuses: 402, 403, 404, 429, 503", status)
}

// ValidateDenialMessage returns an error if a Denial cannot have the message.
func ValidateDenialMessage(message string) error {
	if len(message) > maxDenialMessage {
		return errors.New("message must be at most 2048 characters")
	}
	if strings.ContainsFunc(message, isControl) {
		return errors.New("message must not contain control characters except tabs and line breaks")
	}
	return nil
}

// isControl reports whether a character can control a terminal, or the order in which others are shown.
func isControl(c rune) bool {
	return unicode.IsControl(c) && (c < '\t' || c > '\r') || unicode.Is(unicode.Bidi_Control, c)
}

// denialContentType is the pattern in the CRD. The types are those that browsers neither run nor pass to another program.
var denialContentType = regexp.MustCompile(`^(?i)(text/plain|application/([a-z0-9!#$&^_.-]+[+])?json)(; ?charset=utf-8)?$`)

// ValidateDenialContentType returns an error if contentType is not text/plain or a media type of JSON.
func ValidateDenialContentType(contentType string) error {
	if len(contentType) > maxDenialContentType || !denialContentType.MatchString(contentType) {
		return errors.New("contentType must be text/plain, application/json or application/…+json, optionally with ; charset=utf-8")
	}
	return nil
}

// ValidateDenialHeaderName returns an error if a Denial cannot have a header with the name.
func ValidateDenialHeaderName(name string) error {
	const marks = "!#$%&*+-.^_|~"
	isToken := func(c rune) bool {
		return c < utf8.RuneSelf && (unicode.IsLetter(c) || unicode.IsDigit(c) || strings.ContainsRune(marks, c))
	}
	switch {
	case len(name) > maxDenialHeaderName:
		return fmt.Errorf("a header name must be at most %d characters", maxDenialHeaderName)
	case name == "" || strings.ContainsFunc(name, func(c rune) bool { return !isToken(c) }):
		return fmt.Errorf("%q: a header name must be one or more letters, digits or characters of %s", name, marks)
	case !denialHeader.MatchString(name) || reservedHeader.MatchString(name):
		return fmt.Errorf("header %s must not be set, because Weir or a proxy sets it or acts on it, or it affects more than this response; "+
			"use a header of your own that begins with X-", name)
	default:
		return nil
	}
}

// The patterns in the CRD. Of the standard headers, a Denial can have those that concern only this response and its reader. Of the others,
// proxies and servers act on those that reservedHeader matches: X-Accel-Redirect sends a file, and X-Weir-Decision is for proxies.
var (
	denialHeader   = regexp.MustCompile(`^(?i)(access-control-(allow-credentials|allow-origin|expose-headers)|content-language|link|vary|x-.+)$`)
	reservedHeader = regexp.MustCompile(`^(?i)x-(accel|archive|envoy|forwarded|lighttpd|litespeed|middleware|original|rate-?limit|reproxy|send-?file|weir)`)
)

// ValidateDenialHeaderValue returns an error if a header of a Denial cannot have the value.
func ValidateDenialHeaderValue(value string) error {
	if len(value) > maxDenialHeaderValue || value == "" || strings.Trim(value, " ") != value || !isPrintable(value) {
		return fmt.Errorf("the value of a header must be 1 to %d printable ASCII characters, without spaces at the ends", maxDenialHeaderValue)
	}
	return nil
}

// isPrintable reports whether text is printable ASCII.
func isPrintable(text string) bool {
	return !strings.ContainsFunc(text, func(c rune) bool { return c < ' ' || c > '~' })
}
