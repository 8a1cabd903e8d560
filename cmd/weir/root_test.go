package main

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
)

func TestRun_ParsesCommandLines(t *testing.T) {
	tests := map[string]struct {
		args           []string
		environment    map[string]string
		status         int
		stdout, stderr string // a part of the output
	}{
		"help":                 {args: nil, stdout: "weir serve --policies policies/"},
		"help of a command":    {args: []string{"limiter", "--help"}, stdout: "(env WEIR_REDIS_TIMEOUT)"},
		"version":              {args: []string{"version"}, stdout: "weir "},
		"an unknown command":   {args: []string{"enforce"}, status: 2, stderr: "weir: unknown command \"enforce\"; see weir --help\n"},
		"a misspelt command":   {args: []string{"srve"}, status: 2, stderr: "weir: unknown command \"srve\"; did you mean serve?\n"},
		"an unknown flag":      {args: []string{"serve", "--policy", "x"}, status: 2, stderr: "weir serve: unknown flag --policy; see weir serve --help\n"},
		"an argument too many": {args: []string{"limiter", "x"}, status: 2, stderr: "weir limiter: unexpected argument \"x\"; see weir limiter --help\n"},
		"a negative drain": {
			args:   []string{"serve", "--policies", ".", "--drain", "-5s"},
			status: 2, stderr: "weir serve: --drain -5s is invalid: must not be negative\n",
		},
		"a drain without a unit": {
			args:   []string{"serve", "--policies", ".", "--drain", "5"},
			status: 2, stderr: "weir serve: --drain \"5\" is invalid: must be a duration with a unit, for example 5s; see weir serve --help\n",
		},
		"an unknown flag of weir":    {args: []string{"--policies", "."}, status: 2, stderr: "weir: unknown flag --policies; see weir --help\n"},
		"a bad style of headers":     {args: []string{"serve", "--policies", ".", "--response-headers=foo"}, status: 2, stderr: "weir serve: --response-headers: unknown header family \"foo\": must be RateLimit, "},
		"a bad log level":            {args: []string{"version", "--log-level=loud"}, status: 2, stderr: `weir version: --log-level "loud" is invalid: must be debug, info, warn or error`},
		"a bad log format":           {args: []string{"version", "--log-format=xml"}, status: 2, stderr: `weir version: --log-format "xml" is invalid: must be text or json`},
		"a bad variable":             {args: []string{"limiter"}, environment: map[string]string{"WEIR_DRAIN": "x"}, status: 2, stderr: "weir limiter: environment variable WEIR_DRAIN: --drain \"x\" is invalid: "},
		"serve without a directory":  {args: []string{"serve"}, status: 2, stderr: "weir serve: --policies is required: set it, or WEIR_POLICIES, to the directory with the policies\n"},
		"serve a missing directory":  {args: []string{"serve", "--policies", "/nowhere"}, status: 2, stderr: "weir serve: --policies: stat /nowhere: no such file"},
		"serve a file":               {args: []string{"serve", "--policies", "root.go"}, status: 2, stderr: "weir serve: --policies: root.go is not a directory; use the directory that contains it\n"},
		"serve with a bad Redis":     {args: []string{"serve", "--policies", ".", "--redis", "127.0.0.1:6379"}, status: 2, stderr: "weir serve: --redis: invalid Redis URL: must be redis://"},
		"limiter with a bad Redis":   {args: []string{"limiter", "--redis", "http://x"}, status: 2, stderr: "weir limiter: --redis: invalid Redis URL: must be redis://"},
		"limiter with a bad limiter": {args: []string{"limiter", "--limiter", "default"}, status: 2, stderr: `weir limiter: limiter "default" is invalid: must have the form namespace/name`},
		"the operator":               {args: []string{"operator", "--leader-elect"}, status: 2, stderr: "weir operator: weir has no Kubernetes client: run weir-operator, with the same flags\n"},
		"a command of the plugin":    {args: []string{"status"}, status: 2, stderr: "weir status: weir has no Kubernetes client: run kubectl weir status, with the same flags\n"},
		"limiter on a bad address": {
			args:   []string{"limiter", "--listen", "127.0.0.1:99999"},
			status: 1, stderr: "weir limiter: listen tcp: address 99999: invalid port; set another address with --listen\n",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			defer slog.SetDefault(slog.Default())
			for name, value := range test.environment {
				t.Setenv(name, value)
			}
			var stdout, stderr bytes.Buffer
			if status := run(test.args, &stdout, &stderr); status != test.status {
				t.Errorf("status %d, want %d", status, test.status)
			}
			if !strings.Contains(stdout.String(), test.stdout) || !strings.Contains(stderr.String(), test.stderr) {
				t.Errorf("stdout %q\nwant …%q…\nstderr %q\nwant …%q…", &stdout, test.stdout, &stderr, test.stderr)
			}
			if test.status == 0 && stderr.Len() > 0 {
				t.Errorf("stderr %q", &stderr)
			}
		})
	}
}
