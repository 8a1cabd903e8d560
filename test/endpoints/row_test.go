package endpoints_test

import (
	"fmt"
	"net/netip"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/rules"
)

// row is a request and its expected outcome.
type row struct {
	line            int
	group, sentence string

	// method, host and target are empty in a row that has only descriptors.
	method, host, target string
	domain               string
	client               netip.Addr // the client; the zero Addr if it is unknown
	via                  netip.Addr // the proxy that forwards the request, which all endpoints trust
	headers              []header
	claims               string // JSON, or empty
	descriptors          []rules.Descriptor
	cost                 int64
	peek                 bool
	patient              bool // the caller can delay the request
	grpc                 bool // a gRPC call: POST to /service/method

	want []outcome // empty means no limit
	// apart lists the endpoints that are known to read the row as a different request, with the reason.
	apart map[string]string
}

type header struct{ name, value string }

// outcome is the result of a policy for a request.
type outcome struct {
	Policy, Identifier, Tier string
	Shadow, Allowed, Waits   bool
	Cost, Remaining, Limit   int64
	missing, unreadable      bool // the identifier
}

// peer returns the address of the caller of the server that calls Weir.
func (r *row) peer() netip.Addr {
	if r.via.IsValid() {
		return r.via
	}
	return r.client
}

func (r *row) isHTTP() bool { return r.method != "" }

func (r *row) allowed() bool {
	for _, w := range r.want {
		if !w.Allowed && !w.Shadow {
			return false
		}
	}
	return true
}

// isAbsoluteURL reports whether the target is an absolute URL, which clients can send to a proxy.
func (r *row) isAbsoluteURL() bool {
	return strings.Contains(r.target, "://") && !strings.HasPrefix(r.target, "/")
}

func (r *row) repeatsHeaders() bool {
	seen := map[string]bool{}
	for _, h := range r.headers {
		name := strings.ToLower(h.name)
		if seen[name] {
			return true
		}
		seen[name] = true
	}
	return false
}

func (r *row) isText() bool {
	for _, h := range r.headers {
		if !utf8.ValidString(h.value) {
			return false
		}
	}
	return true
}

// headerLines returns the values of a header, one for each line. The name is in lower case.
func (r *row) headerLines(name string) (lines []string) {
	for _, h := range r.headers {
		if strings.EqualFold(h.name, name) {
			lines = append(lines, h.value)
		}
	}
	return lines
}

// forwardedFor returns X-Forwarded-For as a proxy sets it: the existing value and the address of its caller.
func (r *row) forwardedFor() string {
	entries := r.headerLines(forwardedFor)
	if r.peer().IsValid() {
		entries = append(entries, r.peer().String())
	}
	return strings.Join(entries, ", ")
}

const forwardedFor = "x-forwarded-for"

// readRows parses testdata/requests.txt, whose header describes the format.
func readRows(t *testing.T) []*row {
	t.Helper()
	text, err := os.ReadFile("testdata/requests.txt")
	if err != nil {
		t.Fatal(err)
	}
	var rows []*row
	group, seen := "", map[string]int{}
	for i, line := range strings.Split(string(text), "\n") {
		at, line := i+1, strings.TrimRight(line, " ")
		switch {
		case strings.HasPrefix(line, "## "):
			group = line[3:]
		case line == "", strings.HasPrefix(line, "#"):
		case !strings.HasPrefix(line, " "):
			if before := seen[line]; before != 0 {
				t.Fatalf("line %d: the sentence is the same as in line %d: %s", at, before, line)
			}
			seen[line] = at
			rows = append(rows, &row{line: at, group: group, sentence: line, domain: "shop", cost: 1})
		case len(rows) == 0:
			t.Fatalf("line %d: there is no sentence before the request", at)
		default:
			if err := rows[len(rows)-1].read(strings.TrimLeft(line, " ")); err != nil {
				t.Fatalf("line %d: %s: %v", at, line, err)
			}
		}
	}
	for _, r := range rows {
		if !r.isHTTP() && len(r.descriptors) == 0 {
			t.Fatalf("line %d: %s: no request", r.line, r.sentence)
		}
		if len(r.want) == 0 {
			t.Fatalf("line %d: %s: no outcome", r.line, r.sentence)
		}
		if r.want[0].Policy == "" {
			r.want = nil
		}
	}
	return rows
}

func (r *row) read(line string) error {
	switch first, rest, _ := strings.Cut(line, " "); {
	case first == "=>":
		w, err := readOutcome(rest, r.domain)
		r.want = append(r.want, w)
		return err
	case first == "-":
		r.descriptors = append(r.descriptors, readDescriptor(rest))
		return nil
	case first == "apart":
		endpoint, why, _ := strings.Cut(rest, ": ")
		if r.apart == nil {
			r.apart = map[string]string{}
		}
		r.apart[endpoint] = why
		return nil
	case first == "claims":
		r.claims = rest
		return nil
	case strings.HasSuffix(first, ":"):
		value := rest
		if strings.Contains(rest, `\x`) {
			var err error
			if value, err = strconv.Unquote(`"` + rest + `"`); err != nil {
				return err
			}
		}
		r.headers = append(r.headers, header{strings.TrimSuffix(first, ":"), value})
		return nil
	default:
		return r.readRequest(strings.Fields(line))
	}
}

func (r *row) readRequest(words []string) (err error) {
	if words[0] == "DESCRIPTORS" {
		words = words[1:]
	} else {
		if len(words) < 3 {
			return fmt.Errorf("want METHOD HOST TARGET, got %q", words)
		}
		r.method, r.host, r.target = words[0], words[1], words[2]
		r.client = netip.MustParseAddr("203.0.113.99")
		words = words[3:]
	}
	if r.method == "GRPC" {
		r.method, r.grpc = "POST", true
	}
	for i := 0; i < len(words) && err == nil; i++ {
		value := ""
		if i+1 < len(words) {
			value = words[i+1]
		}
		switch words[i] {
		case "peek":
			r.peek = true
			continue
		case "patient":
			r.patient = true
			continue
		case "from":
			r.client = netip.Addr{}
			if value != "nowhere" {
				r.client, err = netip.ParseAddr(value)
			}
		case "via":
			r.via, err = netip.ParseAddr(value)
		case "cost":
			r.cost, err = strconv.ParseInt(value, 10, 64)
		case "domain":
			r.domain = value
		default:
			err = fmt.Errorf("unknown word %q", words[i])
		}
		i++
	}
	return err
}

func readDescriptor(text string) (d rules.Descriptor) {
	for word := range strings.FieldsSeq(text) {
		key, value, _ := strings.Cut(word, "=")
		d = append(d, rules.Entry{Key: key, Value: value})
	}
	return d
}

var outcomeForm = regexp.MustCompile(`^(shadow )?(\S+) ("(?:[^"\\]|\\.)*"|\S+?)(?: tier (\S+))?(?: costs (\d+))?: (denied, |over, |waits, )?(\d+) of (\d+) left$`)

// readOutcome parses "plan acme tier paid costs 2: 3 of 5 left" and "no limit".
func readOutcome(text, domain string) (outcome, error) {
	if text == "no limit" {
		return outcome{}, nil
	}
	m := outcomeForm.FindStringSubmatch(text)
	if m == nil {
		return outcome{}, fmt.Errorf("invalid outcome %q", text)
	}
	identifier, err := strconv.Unquote(m[3])
	if err != nil { // it is not quoted
		identifier = m[3]
	}
	w := outcome{
		Shadow: m[1] != "", Policy: domain + "/" + m[2], Identifier: identifier, Tier: m[4],
		Allowed: m[6] != "denied, " && m[6] != "over, ", Waits: m[6] == "waits, ",
		Cost: 1, Remaining: number(m[7]), Limit: number(m[8]),
	}
	if m[5] != "" {
		w.Cost = number(m[5])
	}
	if secret, is := strings.CutPrefix(w.Identifier, "hash("); is {
		w.Identifier = testHashKey().Hash(strings.TrimSuffix(secret, ")"))
	}
	switch w.Identifier {
	case "missing":
		w.Identifier, w.missing = limiter.Missing, true
	case "unreadable":
		w.Identifier, w.unreadable = limiter.Unreadable, true
	}
	return w, nil
}

// number parses digits that outcomeForm has matched.
func number(digits string) int64 {
	n, _ := strconv.ParseInt(digits, 10, 64)
	return n
}
