package replay

import (
	"slices"

	"github.com/weir-dev/weir/internal/accesslog/format"
	"github.com/weir-dev/weir/limiter/rules"
)

// Reads returns settings that leave out what no policy reads of a request: headers and queries take memory for each line.
func Reads(o *Options) format.Settings {
	settings := format.Settings{SkipQuery: true, SkipObjects: true, Headers: []string{}}
	sets := []rules.Set{o.Policies}
	if o.Before != nil {
		sets = append(sets, *o.Before)
	}
	for _, set := range sets {
		for i := range set.Rules {
			if !reads(&settings, &set.Rules[i]) {
				return format.Settings{}
			}
		}
	}
	return settings
}

// reads adds what a rule reads. It returns false if that is unknown.
func reads(settings *format.Settings, rule *rules.Rule) bool {
	if rule.Match.Expression != "" || rule.Cost != nil && rule.Cost.Expression != "" {
		return false
	}
	header := func(name string) {
		if name != "" && !slices.Contains(settings.Headers, name) {
			settings.Headers = append(settings.Headers, name)
		}
	}
	for _, source := range rule.Sources() {
		switch source.From {
		case rules.FromExpression:
			return false
		case rules.FromHeader:
			header(source.Name)
		case rules.FromCookie:
			header("cookie")
		case rules.FromQuery:
			settings.SkipQuery = false
		}
	}
	for i := range rule.Match.Headers {
		header(rule.Match.Headers[i].Name)
	}
	if rule.Cost != nil {
		header(rule.Cost.Header)
	}
	for i := range rule.Tiers {
		when := &rule.Tiers[i].When
		if when.Expression != "" {
			return false
		}
		if when.Header != nil {
			header(when.Header.Name)
		}
	}
	return true
}
