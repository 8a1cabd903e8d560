package format

import (
	"fmt"
	"strings"

	"github.com/weir-dev/weir/internal/accesslog/logtext"
	"github.com/weir-dev/weir/internal/accesslog/logtime"
)

// parseHAProxy sets the values of a line of HAProxy's httplog, with or without the prefix of syslog:
//
//	10.0.1.2:33317 [06/Feb/2009:12:14:14.655] fe be/srv 10/0/30/69/109 200 2750 - - ---- 1/1/1/1/0 0/0 {a|b} {c} "GET / HTTP/1.1"
func parseHAProxy(line string, v *values, c *logtime.Clock) error {
	address, rest, err := cutHAProxyAddress(line)
	if err != nil {
		return err
	}
	v.source = withoutPort(address)
	accepted, rest, found := strings.Cut(rest, "] ")
	if !found {
		return fmt.Errorf(`expected "] " after the accept date, found %s`, logtext.Quote(rest))
	}
	if err := v.set(startTime, "", accepted, c); err != nil {
		return fmt.Errorf("accept date: %w", err)
	}
	if rest, err = v.setHAProxyResponse(rest, c); err != nil {
		return err
	}
	opening := strings.IndexByte(rest, '"')
	if opening < 0 || len(rest) < opening+2 {
		return fmt.Errorf("expected the request line in quotes, found %s", logtext.Quote(rest))
	}
	if group, _, found := strings.Cut(strings.TrimLeft(rest[:opening], " "), "}"); found && strings.HasPrefix(group, "{") {
		v.captures = group[1:]
	}
	request := rest[opening+1:]
	if closing := strings.LastIndexByte(request, '"'); closing >= 0 { // HAProxy cuts long request lines
		request = request[:closing]
	}
	return v.setRequestLine(request)
}

// cutHAProxyAddress returns the address before the accept date, and what follows the bracket.
func cutHAProxyAddress(line string) (address, rest string, err error) {
	for from := 0; ; {
		index := strings.Index(line[from:], " [")
		if index < 0 || len(line) < from+index+logtime.LenCLF+2 {
			return "", "", fmt.Errorf("expected an address and the accept date in brackets, as 192.0.2.1:4711 [06/Feb/2009:12:14:14.655], found %s", logtext.Quote(line))
		}
		at := from + index
		if from = at + 2; line[from+2] == '/' {
			return line[strings.LastIndexByte(line[:at], ' ')+1 : at], line[from:], nil
		}
	}
}

// setHAProxyResponse sets the status and the duration, and returns what follows the queues.
func (v *values) setHAProxyResponse(text string, c *logtime.Clock) (rest string, err error) {
	var words [9]string // frontend, backend/server, timers, status, bytes, two cookies, termination state, connections; the queues follow
	for i := range words {
		var found bool
		if words[i], text, found = strings.Cut(text, " "); !found {
			return "", fmt.Errorf("expected 10 fields after the accept date, found %d", i+1)
		}
	}
	total := words[2][strings.LastIndexByte(words[2], '/')+1:]
	if err := v.set(millis, "", strings.TrimPrefix(total, "+"), c); err != nil { // with option logasap
		return "", fmt.Errorf("timers: %w", err)
	}
	if err := v.set(status, "", words[3], c); err != nil {
		return "", fmt.Errorf("status: %w", err)
	}
	_, rest, _ = strings.Cut(text, " ")
	return rest, nil
}
