package format

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weir-dev/weir/internal/accesslog/jsonscan"
	"github.com/weir-dev/weir/internal/accesslog/logtext"
	"github.com/weir-dev/weir/internal/accesslog/logtime"
	"github.com/weir-dev/weir/limiter/rules"
)

// auditLog parses events of audit.k8s.io/v1 into the requests that API servers send to webhooks.
type auditLog struct {
	tree   jsonscan.Tree
	leaves []auditLeaf // by the ids of the tree
	kind   jsonscan.Tree
	clock  *logtime.Clock
	// stages are those of which each request has one event.
	stages      []string
	skipObjects bool
	// groups and extra have the values of the JSON of users. Few users send most requests.
	groups map[string][]string
	extra  map[string]map[string][]string

	event auditEvent
}

// maxUsers bounds how many users an auditLog remembers.
const maxUsers = 1024

// auditEvent is what an event has.
type auditEvent struct {
	kind, version, stage, verb, decision, code   string
	receivedAt, stagedAt                         string
	user, asUser                                 auditUser
	group, resource, subresource, namespace, uri string
	apiVersion, name                             string

	object, result, items string // as JSON

	received, staged time.Time
	status           int
}

// auditUser is a user of an event.
type auditUser struct {
	name          string
	groups, extra string // as JSON
}

// auditLeaf is where the value at a key is kept.
type auditLeaf struct {
	key string
	at  func(*auditEvent) *string
	raw bool // as JSON, in place of its text
}

// auditLeaves are the keys of an event. A slash separates the keys of nested objects.
func auditLeaves() []auditLeaf {
	return []auditLeaf{
		{"kind", func(e *auditEvent) *string { return &e.kind }, false},
		{"apiVersion", func(e *auditEvent) *string { return &e.version }, false},
		{"stage", func(e *auditEvent) *string { return &e.stage }, false},
		{"verb", func(e *auditEvent) *string { return &e.verb }, false},
		{"requestURI", func(e *auditEvent) *string { return &e.uri }, false},
		{"requestReceivedTimestamp", func(e *auditEvent) *string { return &e.receivedAt }, false},
		{"stageTimestamp", func(e *auditEvent) *string { return &e.stagedAt }, false},
		{"responseStatus/code", func(e *auditEvent) *string { return &e.code }, false},
		{"requestObject", func(e *auditEvent) *string { return &e.object }, true},
		{"responseObject", func(e *auditEvent) *string { return &e.result }, true},
		{"items", func(e *auditEvent) *string { return &e.items }, true},
		{"user/username", func(e *auditEvent) *string { return &e.user.name }, false},
		{"user/groups", func(e *auditEvent) *string { return &e.user.groups }, true},
		{"user/extra", func(e *auditEvent) *string { return &e.user.extra }, true},
		{"impersonatedUser/username", func(e *auditEvent) *string { return &e.asUser.name }, false},
		{"impersonatedUser/groups", func(e *auditEvent) *string { return &e.asUser.groups }, true},
		{"impersonatedUser/extra", func(e *auditEvent) *string { return &e.asUser.extra }, true},
		{"objectRef/apiGroup", func(e *auditEvent) *string { return &e.group }, false},
		{"objectRef/apiVersion", func(e *auditEvent) *string { return &e.apiVersion }, false},
		{"objectRef/resource", func(e *auditEvent) *string { return &e.resource }, false},
		{"objectRef/subresource", func(e *auditEvent) *string { return &e.subresource }, false},
		{"objectRef/namespace", func(e *auditEvent) *string { return &e.namespace }, false},
		{"objectRef/name", func(e *auditEvent) *string { return &e.name }, false},
	}
}

// newAuditLog returns a parser. sample has lines of the log, which show the stages that it has: an audit policy can omit stages.
func newAuditLog(c *logtime.Clock, s *Settings, sample []string) *auditLog {
	p := &auditLog{skipObjects: s.SkipObjects, leaves: auditLeaves(), clock: c, groups: map[string][]string{}, extra: map[string]map[string][]string{}}
	for id, l := range p.leaves {
		p.tree.Add(id, strings.Split(l.key, "/")...)
	}
	p.leaves = append(p.leaves, auditLeaf{"annotations/authorization.k8s.io/decision", func(e *auditEvent) *string { return &e.decision }, false})
	p.tree.Add(len(p.leaves)-1, "annotations", "authorization.k8s.io/decision")
	p.kind.Add(0, "kind")
	p.stages = p.stagesOf(sample)
	return p
}

// stagesOf returns the stages of which each request has one event, given lines of the log.
func (p *auditLog) stagesOf(sample []string) []string {
	var seen []string
	for _, line := range sample {
		events, err := p.scan(line)
		if err == nil && events == nil {
			seen = append(seen, p.event.stage)
		}
		for _, event := range events {
			if _, err := p.scan(event); err == nil {
				seen = append(seen, p.event.stage)
			}
		}
	}
	if !slices.Contains(seen, "ResponseComplete") && slices.Contains(seen, "RequestReceived") {
		return []string{"RequestReceived"}
	}
	return []string{"ResponseComplete", "Panic"}
}

// scan sets p.event from a line, or returns the events of an EventList, as JSON.
func (p *auditLog) scan(line string) (events ListError, err error) {
	p.event = auditEvent{}
	if err := p.tree.Scan(line, p); err != nil {
		return nil, err
	}
	if p.event.kind != "EventList" {
		return nil, nil
	}
	if events, err = jsonscan.Elements(p.event.items); err != nil {
		return nil, err
	}
	return append(ListError{}, events...), nil
}

// Visit implements jsonscan.Visitor.
func (p *auditLog) Visit(id int, _, raw string) (err error) {
	l := &p.leaves[id]
	if !l.raw {
		raw, err = jsonscan.Text(raw)
	}
	*l.at(&p.event) = raw
	return err
}

// parse sets a record from an event. The error is a [ListError] if the line is an EventList.
func (p *auditLog) parse(line string, r *Record) error {
	events, err := p.scan(line)
	if err != nil {
		return err
	}
	if events != nil {
		return events
	}
	e := &p.event
	if err := e.read(p.clock); err != nil {
		return err
	}
	if err := e.check(p.stages); err != nil {
		return err
	}
	operation, err := e.operation()
	if err != nil {
		return err
	}
	write := &rules.KubernetesRequest{
		Operation: operation, Group: e.group, Version: e.apiVersion, Resource: e.resource, Subresource: e.subresource, Namespace: e.namespace, Name: e.name,
		DryRun: isDryRun(e.uri),
	}
	if err := p.setUser(write); err != nil {
		return err
	}
	if object, kind := p.object(); object != "" && object != "null" {
		if write.Kind = kind; !p.skipObjects {
			write.Object = []byte(object)
		}
	}
	r.Start, r.Logged, r.Status = e.received, e.staged, e.status
	if e.staged.IsZero() {
		r.Logged = e.received
	}
	r.Request = rules.KubernetesWrite(write)
	return nil
}

// read sets the times and the status from their texts.
func (e *auditEvent) read(c *logtime.Clock) (err error) {
	for _, one := range [...]struct {
		key, text string
		at        *time.Time
	}{{"requestReceivedTimestamp", e.receivedAt, &e.received}, {"stageTimestamp", e.stagedAt, &e.staged}} {
		if one.text == "" {
			continue
		}
		if *one.at, err = c.Parse(one.text); err != nil {
			return fmt.Errorf(".%s: %w", one.key, err)
		}
	}
	if e.code != "" {
		if e.status, err = parseStatus(e.code); err != nil {
			return fmt.Errorf(".responseStatus.code: %w", err)
		}
	}
	return nil
}

// check returns why the line is no event to replay.
func (e *auditEvent) check(stages []string) error {
	switch {
	case e.kind != "Event" || !strings.HasPrefix(e.version, "audit.k8s.io/"):
		return fmt.Errorf("expected kind Event of audit.k8s.io/v1, found kind %s of %s", logtext.Quote(e.kind), logtext.Quote(e.version))
	case e.version != "audit.k8s.io/v1":
		return fmt.Errorf("expected audit.k8s.io/v1, found %s", logtext.Quote(e.version))
	case !slices.Contains(stages, e.stage):
		return ErrOtherStage
	case e.decision == "forbid" || e.status == 401:
		return ErrForbidden
	case e.received.IsZero():
		return errors.New("the event has no requestReceivedTimestamp")
	case e.resource == "":
		return ErrNoResource
	}
	return nil
}

// operation returns the operation of the webhook's request. Verbs that read have no webhook.
func (e *auditEvent) operation() (string, error) {
	switch e.verb {
	case "create":
		if isConnection(e.resource, e.subresource) {
			return "CONNECT", nil
		}
		return "CREATE", nil
	case "update", "patch":
		switch e.status {
		case 201: // the object did not exist, as with kubectl apply --server-side
			return "CREATE", nil
		case 404:
			return "", ErrNotFound
		}
		return "UPDATE", nil
	case "delete", "deletecollection":
		return "DELETE", nil
	default:
		return "", ErrRead
	}
}

// isConnection reports whether an API server connects to a subresource instead of creating it.
func isConnection(resource, subresource string) bool {
	switch subresource {
	case "proxy":
		return resource == "pods" || resource == "services" || resource == "nodes"
	case "exec", "attach", "portforward":
		return resource == "pods"
	default:
		return false
	}
}

// setUser sets the user that the request was decided for: the impersonated one, if there is one.
func (p *auditLog) setUser(write *rules.KubernetesRequest) (err error) {
	u := &p.event.user
	if p.event.asUser.name != "" {
		u = &p.event.asUser
	}
	write.User = u.name
	if write.Groups, err = remember(p.groups, u.groups); err != nil {
		return fmt.Errorf("groups of the user: %w", err)
	}
	if write.Extra, err = remember(p.extra, u.extra); err != nil {
		return fmt.Errorf("extra of the user: %w", err)
	}
	return nil
}

// remember returns the value of a JSON text, which it keeps in known. "" is the zero value.
func remember[V any](known map[string]V, raw string) (value V, err error) {
	if raw == "" {
		return value, nil
	}
	if value, found := known[raw]; found {
		return value, nil
	}
	if err = json.Unmarshal([]byte(raw), &value); err == nil && len(known) < maxUsers {
		known[strings.Clone(raw)] = value
	}
	return value, err
}

// isDryRun reports whether a request URI has dryRun=All.
func isDryRun(uri string) bool {
	_, text, _ := strings.Cut(uri, "?")
	for pair := range strings.SplitSeq(text, "&") {
		if value, ok := strings.CutPrefix(pair, "dryRun="); ok && value != "" {
			return true
		}
	}
	return false
}

// object returns the object of a write as JSON, and its kind. The body of a patch is no object, except that of kubectl apply --server-side. Webhooks see
// what the patch results in, which the response has.
func (p *auditLog) object() (object, kind string) {
	e := &p.event
	if e.verb != "patch" {
		return e.object, p.kindOf(e.object)
	}
	for _, one := range [...]string{e.result, e.object} {
		if kind := p.kindOf(one); kind != "" && kind != "Status" {
			return one, kind
		}
	}
	return "", ""
}

// kindOf returns the kind of an object.
func (p *auditLog) kindOf(object string) string {
	var k kindVisitor
	if p.kind.Scan(object, &k) != nil {
		return ""
	}
	return k.kind
}

type kindVisitor struct{ kind string }

func (k *kindVisitor) Visit(_ int, _, raw string) (err error) {
	k.kind, err = jsonscan.Text(raw)
	return err
}
