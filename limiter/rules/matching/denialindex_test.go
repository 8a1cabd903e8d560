package matching_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/limiter/rules/matching"
)

func header1(name, value string) []rules.DenialHeader {
	return []rules.DenialHeader{{Name: name, Value: value}}
}

func TestNewIndex_RejectsADenialThatNoPolicyHas(t *testing.T) {
	var nine []rules.DenialHeader
	for i := range 9 {
		nine = append(nine, rules.DenialHeader{Name: fmt.Sprintf("x-%d", i), Value: "v"})
	}
	for name, test := range map[string]struct {
		denial rules.Denial
		want   string // of the error; "" for no error
	}{
		"all fields":                     {rules.Denial{Status: 403, Message: "no\r\n\tmore", ContentType: "application/json; charset=utf-8", Headers: header1("x-a", "b c")}, ""},
		"eight headers":                  {rules.Denial{Headers: nine[:8]}, ""},
		"nine headers":                   {rules.Denial{Headers: nine}, "at most 8 headers, got 9"},
		"a status of success":            {rules.Denial{Status: 200}, "unsupported status 200"},
		"a status that HTTP cannot send": {rules.Denial{Status: 7}, "unsupported status 7"},
		"a message of 8192 bytes":        {rules.Denial{Message: strings.Repeat("m", 8192)}, ""},
		"a longer message":               {rules.Denial{Message: strings.Repeat("m", 8193)}, "at most 2048 characters"},
		"a control character":            {rules.Denial{Message: "a\x1b"}, "must not contain control characters"},
		"another control character":      {rules.Denial{Message: "a\x7f"}, "must not contain control characters"},
		"a control character of C1":      {rules.Denial{Message: "\u009b2J"}, "must not contain control characters"},
		"an override of the direction":   {rules.Denial{Message: "\u202e"}, "must not contain control characters"},
		"letters of other languages":     {rules.Denial{Message: "no – όριο – לא"}, ""},
		"no media type":                  {rules.Denial{Message: "m", ContentType: "json"}, "contentType must be text/plain"},
		"a media type of two lines":      {rules.Denial{Message: "m", ContentType: "text/plain\r\nX-A: b"}, "contentType must be text/plain"},
		"a long media type":              {rules.Denial{Message: "m", ContentType: "application/" + strings.Repeat("m", 112) + "+json"}, "contentType must be text/plain"},
		"a header of 64 characters":      {rules.Denial{Headers: header1("x-"+strings.Repeat("x", 62), "v")}, ""},
		"a header of 65 characters":      {rules.Denial{Headers: header1("x-"+strings.Repeat("x", 63), "v")}, "at most 64 characters"},
		"a name that is not a token":     {rules.Denial{Headers: header1("x a", "v")}, "a header name must be"},
		"a name with a letter of Greek":  {rules.Denial{Headers: header1("x-α", "v")}, "a header name must be"},
		"an empty name":                  {rules.Denial{Headers: header1("", "v")}, "a header name must be"},
		"a value of 256 characters":      {rules.Denial{Headers: header1("x-a", strings.Repeat("v", 256))}, ""},
		"a value of 257 characters":      {rules.Denial{Headers: header1("x-a", strings.Repeat("v", 257))}, "1 to 256 printable"},
		"an empty value":                 {rules.Denial{Headers: header1("x-a", "")}, "1 to 256 printable"},
		"a space at the end":             {rules.Denial{Headers: header1("x-a", "v ")}, "1 to 256 printable"},
		"a value of two lines":           {rules.Denial{Headers: header1("x-a", "v\nX-B: c")}, "1 to 256 printable"},
		"headers that are not sorted":    {rules.Denial{Headers: []rules.DenialHeader{{Name: "x-b", Value: "v"}, {Name: "x-a", Value: "v"}}}, "sorted and unique"},
		"a header twice, in two cases":   {rules.Denial{Headers: []rules.DenialHeader{{Name: "X-A", Value: "v"}, {Name: "x-a", Value: "w"}}}, "must be in lower case"},
		"a header twice":                 {rules.Denial{Headers: []rules.DenialHeader{{Name: "x-a", Value: "v"}, {Name: "x-a", Value: "w"}}}, "sorted and unique"},
	} {
		r := ruleMatching(rules.Match{})
		r.Denial = &test.denial
		_, err := matching.NewIndex(rules.Set{Rules: []rules.Rule{r}}, "sha256:test", "weir:")
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s: error %v, want %q", name, err, test.want)
		}
	}
}

func TestNewIndex_ADenialOfWritesHasOnlyAMessage(t *testing.T) {
	write := rules.Match{Kubernetes: &rules.KubernetesMatch{Resources: []rules.KubernetesResources{
		{APIGroups: []string{""}, Resources: []string{"pods"}, Operations: []string{"CREATE"}},
	}}}
	for name, test := range map[string]struct {
		denial rules.Denial
		valid  bool
	}{
		"a message":      {rules.Denial{Message: "ask the platform team"}, true},
		"a status":       {rules.Denial{Status: 403, Message: "m"}, false},
		"a content type": {rules.Denial{Message: "m", ContentType: "text/html"}, false},
		"a header":       {rules.Denial{Headers: header1("x-a", "v")}, false},
	} {
		r := ruleMatching(write)
		r.Identifier = rules.Identifier{From: rules.FromKubernetesUser}
		r.Denial = &test.denial
		_, err := matching.NewIndex(rules.Set{Rules: []rules.Rule{r}}, "sha256:test", "weir:")
		if test.valid && err != nil || !test.valid && (err == nil || !strings.Contains(err.Error(), "must have only a message")) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
