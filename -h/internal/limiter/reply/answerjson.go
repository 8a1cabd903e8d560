package reply

import (
	"encoding/json"
	"fmt"
	"strconv"
)

// AppendJSON appends a as one line of JSON: the same bytes as encoding/json, in a fraction of its time.
func (a *Answer) AppendJSON(b []byte) []byte {
	b = appendBool(b, `{"allowed":`, a.Allowed)
	b = appendText(b, `,"policy":`, a.Policy)
	b = appendLimits(b, a.Limit, a.Remaining, a.ResetAfterMs, a.RetryAfterMs)
	b = appendNumber(b, `,"delayMs":`, a.DelayMs)
	b = appendText(b, `,"source":`, string(a.Source))
	b = appendText(b, `,"revision":`, a.Revision)
	b = append(b, `,"results":[`...)
	for i := range a.Results {
		if i > 0 {
			b = append(b, ',')
		}
		b = a.Results[i].appendJSON(b)
	}
	b = append(b, ']')
	if a.Denial != nil {
		b = appendValue(append(b, `,"denial":`...), a.Denial)
	}
	if len(a.Defects) > 0 {
		b = appendValue(append(b, `,"defects":`...), a.Defects)
	}
	return append(b, '}', '\n')
}

func (r *Result) appendJSON(b []byte) []byte {
	b = appendText(b, `{"policy":`, r.Policy)
	b = appendText(b, `,"axis":`, r.Axis)
	b = appendText(b, `,"identifier":`, r.Identifier)
	b = appendText(b, `,"algorithm":`, string(r.Algorithm))
	b = appendText(b, `,"window":`, r.Window)
	b = appendText(b, `,"tier":`, r.Tier)
	b = appendBool(b, `,"allowed":`, r.Allowed)
	b = appendLimits(b, r.Limit, r.Remaining, r.ResetAfterMs, r.RetryAfterMs)
	b = appendBool(b, `,"shadow":`, r.Shadow)
	if r.Source != "" {
		b = appendText(b, `,"source":`, string(r.Source))
	}
	if r.Missing != "" {
		b = appendText(b, `,"missing":`, r.Missing)
	}
	return append(b, '}')
}

// appendLimits appends the members that an answer and a result share.
func appendLimits(b []byte, limit, remaining, resetAfter int64, retryAfter *int64) []byte {
	b = appendNumber(b, `,"limit":`, limit)
	b = appendNumber(b, `,"remaining":`, remaining)
	b = appendNumber(b, `,"resetAfterMs":`, resetAfter)
	if retryAfter == nil {
		return append(b, `,"retryAfterMs":null`...)
	}
	return appendNumber(b, `,"retryAfterMs":`, *retryAfter)
}

func appendText(b []byte, name, value string) []byte { return appendString(append(b, name...), value) }

func appendNumber(b []byte, name string, value int64) []byte {
	return strconv.AppendInt(append(b, name...), value, 10)
}

func appendBool(b []byte, name string, value bool) []byte {
	return strconv.AppendBool(append(b, name...), value)
}

// appendValue appends plain data as JSON.
func appendValue(b []byte, value any) []byte {
	encoded, err := json.Marshal(value)
	if err != nil {
		panic(fmt.Sprintf("reply: encode %T: %v", value, err))
	}
	return append(b, encoded...)
}
