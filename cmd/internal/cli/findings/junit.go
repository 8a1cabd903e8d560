package findings

import (
	"encoding/xml"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Suites is a report in the XML of JUnit, as continuous integration reads it.
type Suites struct {
	XMLName  xml.Name `xml:"testsuites"`
	Tests    int      `xml:"tests,attr"`
	Failures int      `xml:"failures,attr"`
	Suites   []Suite  `xml:"testsuite"`
}

// Suite is a file.
type Suite struct {
	Name     string  `xml:"name,attr"`
	Tests    int     `xml:"tests,attr"`
	Failures int     `xml:"failures,attr"`
	Errors   int     `xml:"errors,attr"`
	Skipped  int     `xml:"skipped,attr"`
	Time     Seconds `xml:"time,attr"`
	Cases    []Case  `xml:"testcase"`
}

// Case is one test.
type Case struct {
	Class    string    `xml:"classname,attr"`
	Name     string    `xml:"name,attr"`
	File     string    `xml:"file,attr"`
	Line     int       `xml:"line,attr"`
	Time     Seconds   `xml:"time,attr"`
	Failures []Failure `xml:"failure"`
	Output   string    `xml:"system-out,omitempty"`
}

// Failure is why a test fails.
type Failure struct {
	Message string `xml:"message,attr"`
	Type    string `xml:"type,attr"`
	Text    string `xml:",chardata"`
}

// Seconds is a duration in seconds.
type Seconds float64

// MarshalXMLAttr returns seconds with three decimals.
func (s *Seconds) MarshalXMLAttr(name xml.Name) (xml.Attr, error) {
	return xml.Attr{Name: name, Value: strconv.FormatFloat(float64(*s), 'f', 3, 64)}, nil
}

// UnmarshalXMLAttr reads what MarshalXMLAttr writes.
func (s *Seconds) UnmarshalXMLAttr(attr xml.Attr) error {
	seconds, err := strconv.ParseFloat(attr.Value, 64)
	*s = Seconds(seconds)
	return err
}

// Add adds a case to the suite of its file.
func (s *Suites) Add(c Case) {
	i := slices.IndexFunc(s.Suites, func(suite Suite) bool { return suite.Name == c.File })
	if i < 0 {
		s.Suites = append(s.Suites, Suite{Name: c.File})
		i = len(s.Suites) - 1
	}
	s.Suites[i].Cases = append(s.Suites[i].Cases, c)
}

// Write writes the report.
func (s *Suites) Write(w io.Writer) error {
	s.Tests, s.Failures = 0, 0
	for i := range s.Suites {
		suite := &s.Suites[i]
		suite.Tests, suite.Failures, suite.Time = len(suite.Cases), 0, 0
		for j := range suite.Cases {
			suite.Time += suite.Cases[j].Time
			if len(suite.Cases[j].Failures) > 0 {
				suite.Failures++
			}
		}
		s.Tests, s.Failures = s.Tests+suite.Tests, s.Failures+suite.Failures
	}
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	encoder := xml.NewEncoder(w)
	encoder.Indent("", "  ")
	if err := encoder.Encode(s); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}

// writeJUnit writes a test for each object, and for each finding about something else.
func (r *Report) writeJUnit(w io.Writer) error {
	var suites Suites
	type place struct{ file, name string }
	cases := map[place]*Case{}
	var order []place
	at := func(file, name string, line int) *Case {
		file = relative(file)
		key := place{file, name}
		if cases[key] == nil {
			cases[key] = &Case{Class: file, Name: name, File: file, Line: max(line, 1)}
			order = append(order, key)
		}
		return cases[key]
	}
	for _, o := range r.Objects {
		at(o.File, o.Name, o.Line)
	}
	for _, f := range r.counted() {
		name := f.Policy
		if name == "" {
			name = f.Rule
		}
		c := at(f.File, name, f.Line)
		if r.fails(f) {
			c.Failures = append(c.Failures, Failure{Message: valid(f.Message), Type: f.Rule, Text: valid(f.Text()) + "\n" + f.URL})
		} else {
			c.Output += string(f.Severity) + ": " + valid(f.Text()) + "\n"
		}
	}
	for _, key := range order {
		suites.Add(*cases[key])
	}
	return suites.Write(w)
}

// valid replaces what XML cannot represent.
func valid(text string) string {
	return strings.Map(func(r rune) rune {
		if r == utf8.RuneError || r < ' ' && r != '\n' && r != '\t' {
			return '?'
		}
		return r
	}, text)
}
