package format

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weir-dev/weir/limiter/rules"
)

// auditLog parses events of audit.k8s.io/v1, one a line, into the requests that API servers send to webhooks.
type auditLog struct {
	root   *node
	clock  *clock
	object *node // the keys of objects
	// stages are those of which each request has one event.
	stages []string
	// groups and extra have the values of the JSON of users. Few users send most requests.
	groups map[string][]string
	extra  map[string]map[string][]string

	event auditEvent
}

// maxUsers bounds how many users an auditLog remembers.
const maxUsers = 1024

// auditEvent is what an event has. Values that are no text are raw JSON.
type auditEvent struct {
	kind, version, stage, verb, decision         string
	received, staged                             time.Time
	status                                       int
	user, asUser                                 auditUser
	group, resource, subresource, namespace, uri string
	apiVersion, name                             string
	object                                       string
}

func newAuditLog(root *node, c *clock, stages []string) *auditLog {
	object := &node{}
	object.add(leaf{}, "kind")
	return &auditLog{root: root, clock: c, object: object, stages: stages, groups: map[string][]string{}, extra: map[string]map[string][]string{}}
}

// auditUser is a user of an event, as raw JSON.
type auditUser struct{ name, groups, extra string }

// auditTree returns the keys of an event. The names of the leaves are their paths.
func auditTree() *node {
	root := &node{}
	for key := range strings.FieldsSeq("kind apiVersion stage verb requestURI requestReceivedTimestamp stageTimestamp responseStatus/code requestObject " +
		"user/username user/groups user/extra impersonatedUser/username impersonatedUser/groups impersonatedUser/extra " +
		"objectRef/apiGroup objectRef/apiVersion objectRef/resource objectRef/subresource objectRef/namespace objectRef/name") {
		root.add(leaf{name: key}, strings.Split(key, "/")...)
	}
	root.add(leaf{name: "decision"}, "annotations", "authorization.k8s.io/decision")
	return root
}

// parse sets a record from an event.
func (p *auditLog) parse(line string, r *Record) error {
	p.event = auditEvent{}
	e := &p.event
	if err := scan(line, p.root, p); err != nil {
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
	if e.object != "" && e.object != "null" {
		write.Object = []byte(e.object)
		write.Kind = p.kindOf(e.object)
	}
	r.Start, r.Logged, r.Status = e.received, e.staged, e.status
	if e.staged.IsZero() {
		r.Logged = e.received
	}
	r.Request = rules.KubernetesWrite(write)
	return nil
}

// check returns why the line is no event to replay.
func (e *auditEvent) check(stages []string) error {
	switch {
	case e.kind == "EventList":
		return errors.New("an EventList: write each event on its own line, for example with jq -c '.items[]'")
	case e.kind != "Event" || !strings.HasPrefix(e.version, "audit.k8s.io/"):
		return fmt.Errorf("expected kind Event of audit.k8s.io/v1, found kind %s of %s", quote(e.kind), quote(e.version))
	case e.version != "audit.k8s.io/v1":
		return fmt.Errorf("expected audit.k8s.io/v1, found %s", quote(e.version))
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
		return "UPDATE", nil
	case "delete":
		return "DELETE", nil
	default: // deletecollection deletes objects that the event does not list
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

// kindOf returns the kind of an object.
func (p *auditLog) kindOf(object string) string {
	var k kindVisitor
	if scan(object, p.object, &k) != nil {
		return ""
	}
	return k.kind
}

type kindVisitor struct{ kind string }

func (k *kindVisitor) visit(_ *leaf, _, raw string) (err error) {
	k.kind, err = textOf(raw)
	return err
}

// visit implements visitor.
func (p *auditLog) visit(l *leaf, _, raw string) (err error) {
	if keep := p.event.raw(l.name); keep != nil {
		*keep = raw
		return nil
	}
	text, err := textOf(raw)
	if err != nil {
		return err
	}
	switch l.name {
	case "requestReceivedTimestamp":
		p.event.received, err = p.clock.parse(text)
	case "stageTimestamp":
		p.event.staged, err = p.clock.parse(text)
	case "responseStatus/code":
		p.event.status, err = parseStatus(text)
	default:
		*p.event.text(l.name) = text
	}
	if err != nil {
		return fmt.Errorf("%s: %w", l.label, err)
	}
	return nil
}

// raw returns where the JSON of a leaf is kept, and nil for a leaf that is text.
func (e *auditEvent) raw(name string) *string {
	switch name {
	case "user/groups":
		return &e.user.groups
	case "user/extra":
		return &e.user.extra
	case "impersonatedUser/groups":
		return &e.asUser.groups
	case "impersonatedUser/extra":
		return &e.asUser.extra
	case "requestObject":
		return &e.object
	default:
		return nil
	}
}

// text returns where the text of a leaf is kept.
func (e *auditEvent) text(name string) *string {
	switch name {
	case "kind":
		return &e.kind
	case "apiVersion":
		return &e.version
	case "stage":
		return &e.stage
	case "verb":
		return &e.verb
	case "requestURI":
		return &e.uri
	case "decision":
		return &e.decision
	case "user/username":
		return &e.user.name
	case "impersonatedUser/username":
		return &e.asUser.name
	default:
		return e.objectText(name)
	}
}

func (e *auditEvent) objectText(name string) *string {
	switch name {
	case "objectRef/apiGroup":
		return &e.group
	case "objectRef/apiVersion":
		return &e.apiVersion
	case "objectRef/resource":
		return &e.resource
	case "objectRef/subresource":
		return &e.subresource
	case "objectRef/namespace":
		return &e.namespace
	default:
		return &e.name
	}
}
