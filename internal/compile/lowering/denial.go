package lowering

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/weir-dev/weir/api/v1alpha1/policyapi"
	"github.com/weir-dev/weir/limiter/rules"
)

func (v *validator) validateDenial(d *policyapi.Denial) {
	const field = "spec.denial"
	if d == nil {
		return
	}
	if v.kubernetes && (d.Status != 0 || d.ContentType != "" || len(d.Headers) > 0) {
		v.report(field, "denial must have only message with match.kubernetes, because the API server sets the rest of the response; "+
			"remove status, contentType and headers")
	}
	v.reportError(field+".status", rules.ValidateDenialStatus(cmp.Or(int(d.Status), rules.DefaultDenialStatus)))
	v.reportError(field+".message", rules.ValidateDenialMessage(d.Message))
	switch {
	case d.ContentType == "":
	case d.Message == "":
		v.report(field+".contentType", "contentType is valid only with message, because it describes the message; set message or remove contentType")
	default:
		v.reportError(field+".contentType", rules.ValidateDenialContentType(d.ContentType))
	}
	if len(d.Headers) > rules.MaxDenialHeaders {
		v.report(field+".headers", "must have at most %d items", rules.MaxDenialHeaders)
	}
	seen := map[string]bool{}
	for i, h := range d.Headers {
		header := fmt.Sprintf("%s.headers[%d]", field, i)
		v.reportError(header+".name", rules.ValidateDenialHeaderName(string(h.Name)))
		v.reportError(header+".value", rules.ValidateDenialHeaderValue(h.Value))
		name := strings.ToLower(string(h.Name))
		if seen[name] {
			v.report(field+".headers", "headers must have unique names; remove the repeated one")
		}
		seen[name] = true
	}
}

func (v *validator) reportError(field string, err error) {
	if err != nil {
		v.report(field, "%v", err)
	}
}

// lowerDenial omits the defaults.
func lowerDenial(d *policyapi.Denial) *rules.Denial {
	if d == nil {
		return nil
	}
	out := &rules.Denial{Status: int(d.Status), Message: d.Message, ContentType: d.ContentType}
	if out.Status == rules.DefaultDenialStatus {
		out.Status = 0
	}
	if out.ContentType == rules.DefaultContentType {
		out.ContentType = ""
	}
	for _, h := range d.Headers {
		out.Headers = append(out.Headers, rules.DenialHeader{Name: lowercase(h.Name), Value: h.Value})
	}
	out.Headers = sorted(out.Headers, func(a, b rules.DenialHeader) int { return strings.Compare(a.Name, b.Name) })
	if out.Status == 0 && out.Message == "" && len(out.Headers) == 0 {
		return nil
	}
	return out
}
