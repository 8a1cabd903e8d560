package format

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/weir-dev/weir/internal/accesslog/jsonscan"
	"github.com/weir-dev/weir/internal/accesslog/logtext"
	"github.com/weir-dev/weir/internal/accesslog/logtime"
)

// decisionLog parses the lines of Weir's decision log, which are those of limiter/decisionlog. Other lines of a limiter are skipped.
type decisionLog struct {
	tree  *jsonscan.Tree
	keys  []string // by the ids of the tree
	clock *logtime.Clock

	message, domain, host, method, path string
	at, decided                         time.Time
	recorded                            Recorded
}

// newDecisionLog returns a parser.
func newDecisionLog(c *logtime.Clock) *decisionLog {
	p := &decisionLog{tree: &jsonscan.Tree{}, clock: c}
	p.keys = strings.Fields("time decidedAt msg endpoint result domain host method path policy axis identifier tier limit remaining cost " +
		"retryAfterMs source others denied shadowDenied bypassed revision")
	for id, key := range p.keys {
		p.tree.Add(id, key)
	}
	return p
}

// parse sets a record from a line.
func (p *decisionLog) parse(line string, r *Record) error {
	*p = decisionLog{tree: p.tree, keys: p.keys, clock: p.clock}
	if err := p.tree.Scan(line, p); err != nil {
		return err
	}
	switch {
	case p.message != "decision":
		return ErrOtherMessage
	case p.recorded.Policy == "" || p.recorded.Revision == "":
		return errors.New("the decision has no policy or no revision")
	case p.at.IsZero():
		return errors.New("the line has no time")
	}
	if r.Start, r.Logged = p.decided, p.at; p.decided.IsZero() {
		r.Start = p.at
	}
	q := &r.Request
	q.Domain, q.Host, q.Method = p.domain, p.host, p.method
	q.Path, q.NoHTTP = p.path, p.method == "" && p.path == "" // the path is normalized
	recorded := p.recorded
	r.Recorded = &recorded
	return nil
}

// Visit implements jsonscan.Visitor.
func (p *decisionLog) Visit(id int, _, raw string) (err error) {
	key := p.keys[id]
	if key == "others" {
		err = json.Unmarshal([]byte(raw), &p.recorded.Others)
	} else if list := p.list(key); list != nil {
		err = json.Unmarshal([]byte(raw), list)
	} else {
		var text string
		if text, err = jsonscan.Text(raw); err == nil {
			err = p.set(key, text)
		}
	}
	if err != nil {
		return fmt.Errorf(".%s: %w", key, err)
	}
	return nil
}

// list returns where the policies of a leaf are kept, and nil for a leaf that is no list.
func (p *decisionLog) list(name string) *[]string {
	switch name {
	case "denied":
		return &p.recorded.Denied
	case "shadowDenied":
		return &p.recorded.ShadowDenied
	case "bypassed":
		return &p.recorded.Bypassed
	default:
		return nil
	}
}

// set sets the value of a leaf that is a time, a number or a text.
func (p *decisionLog) set(name, text string) (err error) {
	switch name {
	case "time":
		p.at, err = p.clock.Parse(text)
	case "decidedAt":
		p.decided, err = p.clock.Parse(text)
	case "cost":
		p.recorded.Cost, err = parseCount(text)
	case "limit":
		p.recorded.Limit, err = parseCount(text)
	case "remaining":
		p.recorded.Remaining, err = parseCount(text)
	case "retryAfterMs":
		var n int64
		n, err = parseCount(text)
		p.recorded.RetryAfter = time.Duration(n) * time.Millisecond
	default:
		*p.text(name) = text
	}
	return err
}

func parseCount(text string) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%s is no whole number", logtext.Quote(text))
	}
	return n, nil
}

// text returns where the text of a leaf is kept.
func (p *decisionLog) text(name string) *string {
	switch name {
	case "msg":
		return &p.message
	case "domain":
		return &p.domain
	case "host":
		return &p.host
	case "method":
		return &p.method
	case "path":
		return &p.path
	case "endpoint":
		return &p.recorded.Endpoint
	case "result":
		return &p.recorded.Result
	case "policy":
		return &p.recorded.Policy
	case "axis":
		return &p.recorded.Axis
	case "identifier":
		return &p.recorded.Identifier
	case "tier":
		return &p.recorded.Tier
	case "source":
		return &p.recorded.Source
	default:
		return &p.recorded.Revision
	}
}
