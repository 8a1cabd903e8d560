package format

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/weir-dev/weir/limiter/rules"
)

// auditLog parses events of audit.k8s.io/v1, one a line, into the requests that API servers send to webhooks.
type auditLog struct {
	root     *node
	clock    *clock
	settings *Settings
	// stages are those of which each request has one event.
	stages []string

	kind, version, stage, verb, decision         string
	received, staged                             time.Time
	status                                       int
	user, asUser                                 auditUser
	group, resource, subresource, namespace, uri string
	apiVersion, name                             string
	object                                       string
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
	*p = auditLog{root: p.root, clock: p.clock, settings: p.settings, stages: p.stages}
	if err := scan(line, p.root, p); err != nil {
		return err
	}
	if err := p.check(); err != nil {
		return err
	}
	operation, err := p.operation()
	if err != nil {
		return err
	}
	write := &rules.KubernetesRequest{
		Operation: operation, Group: p.group, Version: p.apiVersion, Resource: p.resource, Subresource: p.subresource, Namespace: p.namespace, Name: p.name,
		DryRun: isDryRun(p.uri),
	}
	if err := p.setUser(write); err != nil {
		return err
	}
	if p.object != "" && p.object != "null" {
		write.Object = []byte(p.object)
		write.Kind = kindOf(p.object)
	}
	r.Start, r.Logged, r.Status = p.received, p.staged, p.status
	if p.staged.IsZero() {
		r.Logged = p.received
	}
	r.Request = rules.KubernetesWrite(write)
	return nil
}

// check returns why the line is no event to replay.
func (p *auditLog) check() error {
	switch {
	case p.kind == "EventList":
		return fmt.Errorf("an EventList: write each event on its own line, for example with jq -c '.items[]'")
	case p.kind != "Event" || !strings.HasPrefix(p.version, "audit.k8s.io/"):
		return fmt.Errorf("expected kind Event of audit.k8s.io/v1, found kind %s of %s", quote(p.kind), quote(p.version))
	case p.version != "audit.k8s.io/v1":
		return fmt.Errorf("expected audit.k8s.io/v1, found %s", quote(p.version))
	case !contains(p.stages, p.stage):
		return SkipStage
	case p.decision == "forbid" || p.status == 401:
		return SkipForbidden
	case p.received.IsZero():
		return fmt.Errorf("the event has no requestReceivedTimestamp")
	case p.resource == "":
		return SkipNoResource
	}
	return nil
}

func contains(list []string, text string) bool {
	for _, one := range list {
		if one == text {
			return true
		}
	}
	return false
}

// operation returns the operation of the webhook's request. Verbs that read have no webhook.
func (p *auditLog) operation() (string, error) {
	switch p.verb {
	case "create":
		if isConnection(p.resource, p.subresource) {
			return "CONNECT", nil
		}
		return "CREATE", nil
	case "update", "patch":
		return "UPDATE", nil
	case "delete":
		return "DELETE", nil
	default: // deletecollection deletes objects that the event does not list
		return "", SkipRead
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
func (p *auditLog) setUser(write *rules.KubernetesRequest) error {
	u := &p.user
	if p.asUser.name != "" {
		u = &p.asUser
	}
	write.User = u.name
	if u.groups != "" {
		if err := json.Unmarshal([]byte(u.groups), &write.Groups); err != nil {
			return fmt.Errorf("groups of the user: %w", err)
		}
	}
	if u.extra != "" {
		if err := json.Unmarshal([]byte(u.extra), &write.Extra); err != nil {
			return fmt.Errorf("extra of the user: %w", err)
		}
	}
	return nil
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
func kindOf(object string) string {
	root := &node{}
	root.add(leaf{}, "kind")
	var k kindVisitor
	if scan(object, root, &k) != nil {
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
	switch l.name {
	case "user/groups":
		p.user.groups = raw
		return nil
	case "user/extra":
		p.user.extra = raw
		return nil
	case "impersonatedUser/groups":
		p.asUser.groups = raw
		return nil
	case "impersonatedUser/extra":
		p.asUser.extra = raw
		return nil
	case "requestObject":
		p.object = raw
		return nil
	}
	text, err := textOf(raw)
	if err != nil {
		return err
	}
	switch l.name {
	case "requestReceivedTimestamp":
		p.received, err = p.clock.parse(text)
	case "stageTimestamp":
		p.staged, err = p.clock.parse(text)
	case "responseStatus/code":
		p.status, err = parseStatus(text)
	default:
		*p.text(l.name) = text
	}
	if err != nil {
		return fmt.Errorf("%s: %w", l.label, err)
	}
	return nil
}

// text returns where the text of a leaf is kept.
func (p *auditLog) text(name string) *string {
	switch name {
	case "kind":
		return &p.kind
	case "apiVersion":
		return &p.version
	case "stage":
		return &p.stage
	case "verb":
		return &p.verb
	case "requestURI":
		return &p.uri
	case "decision":
		return &p.decision
	case "user/username":
		return &p.user.name
	case "impersonatedUser/username":
		return &p.asUser.name
	default:
		return p.objectText(name)
	}
}

func (p *auditLog) objectText(name string) *string {
	switch name {
	case "objectRef/apiGroup":
		return &p.group
	case "objectRef/apiVersion":
		return &p.apiVersion
	case "objectRef/resource":
		return &p.resource
	case "objectRef/subresource":
		return &p.subresource
	case "objectRef/namespace":
		return &p.namespace
	default:
		return &p.name
	}
}
