package format

import (
	"fmt"
	"time"

	"github.com/weir-dev/weir/limiter/rules"
)

// Record is a request in a log. Its texts share memory with the lines of its batch: clone what is kept for longer.
type Record struct {
	// Start is when the request began, in UTC. Where a format logs the end and the duration, it is their difference. In Weir's decision log it is the
	// instant of the decision, by the clock of the counters.
	Start time.Time
	// Logged is the time that the line has, in UTC. It shows whether the clock of the log goes back.
	Logged time.Time
	// Request is normalized as rules read it: see [rules.NormalHost], [rules.Request.SetTarget] and [rules.Request.SetQuery]. Request.Kubernetes
	// is set for audit events.
	Request rules.Request
	// Status of the response, 0 if unknown.
	Status int
	// File and Line of the record. Lines count from 1.
	File string
	Line int
	// Recorded is what a limiter has decided. It is nil except in Weir's decision log.
	Recorded *Recorded
}

// Recorded is a decision in Weir's decision log. Its fields are those of a record of limiter/decisionlog.
type Recorded struct {
	Endpoint   string
	Result     string // allowed, denied or uncharged
	Policy     string
	Axis       string
	Identifier string // as it was counted: secrets are hashed
	Tier       string
	Limit      int64
	Remaining  int64
	Cost       int64         // how many times the request counts, 0 for once
	RetryAfter time.Duration // 0 if the request was allowed, or if no retry could succeed
	Source     string
	// Others are the other policies that decided about the request.
	Others []RecordedPolicy
	// Denied lists the enforced policies that denied, ShadowDenied those in Shadow mode that would have denied, and Bypassed those that did not
	// count the request.
	Denied, ShadowDenied, Bypassed []string
	Revision                       string
}

// RecordedPolicy is what another policy than that of the record decided.
type RecordedPolicy struct {
	Policy     string `json:"policy"`
	Identifier string `json:"identifier"`
	Tier       string `json:"tier"`
	Limit      int64  `json:"limit"`
	Remaining  int64  `json:"remaining"`
}

// SkipError is why a line of a log is no request to replay, although it is a valid line. It is an error so that parsers return it as one.
type SkipError string

// The reasons for which lines are skipped.
const (
	ErrNoRequest    SkipError = "no HTTP request"           // a connection that sent nothing, or no HTTP
	ErrOtherMessage SkipError = "another message"           // another line of a log that has several kinds
	ErrOtherStage   SkipError = "another stage"             // an audit event of a stage that repeats the request
	ErrRead         SkipError = "a read"                    // an audit event of a verb that no webhook can limit
	ErrForbidden    SkipError = "rejected by authorization" // an audit event of a request that never reached webhooks
	ErrNotFound     SkipError = "not found"                 // an audit event of a change of an object that does not exist
	ErrNoResource   SkipError = "no resource"               // an audit event of a path such as /healthz
)

// Error implements error.
func (s SkipError) Error() string { return string(s) }

// ListError has the lines that one line of a log contains: the events of an EventList. It is an error so that parsers return it as one.
type ListError []string

// Error implements error.
func (l ListError) Error() string {
	return fmt.Sprintf("a list of %d events, where one event is expected", len(l))
}
