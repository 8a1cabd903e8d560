package main

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/weir-dev/weir/cmd/internal/cli"
)

// redisCheck runs kubectl weir redis check with the flags of f, and returns its output and exit status.
func redisCheck(t *testing.T, f *clusterFlags, arguments ...string) (output string, status int) {
	t.Helper()
	var out bytes.Buffer
	args := append([]string{"redis", "check", "--kubeconfig", f.kubeconfig, "--operator", f.operator, "--operator-ca", f.operatorCA}, arguments...)
	status = run(args, &out, &out)
	return out.String(), status
}

const (
	usable   = `{"usable":true,"server":{"description":"Redis 7.0.15, Standalone","mode":"Standalone","primaries":1,"replicas":0,"resp3":true},"findings":[]}`
	unusable = `{"usable":false,"findings":[{"severity":"error","text":"redis:6379 rejects the user or the password: check the credentials"}]}`
)

func TestRedisCheck_PrintsTheReportOfEachReplica(t *testing.T) {
	for name, test := range map[string]struct {
		replicas string
		status   int
		wants    []string
	}{
		"all": {`{"pod":"x","status":200,"body":` + usable + `},{"pod":"y","status":200,"sameAs":"x"}`, 0, []string{"replica x", "replica y", "Redis 7.0.15, Standalone", "Weir can use this Redis"}},
		"one cannot": {
			`{"pod":"x","status":200,"body":` + usable + `},{"pod":"y","status":200,"body":` + unusable + `}`, cli.ExitFailed,
			[]string{"Weir can use this Redis", "rejects the user or the password", "Weir cannot use this Redis as it is"},
		},
		"one does not answer": {
			`{"pod":"x","status":200,"body":` + usable + `},{"pod":"y","error":"no answer within 5s"}`, cli.ExitFailed,
			[]string{"Weir can use this Redis", "replica y does not answer: no answer within 5s", "these replicas did not check Redis: y"},
		},
		"an older version": {
			`{"pod":"x","status":404,"body":{"title":"Not Found","status":404,"detail":"\"GET\" \"/admin/v1/redis\" does not exist"}}`, cli.ExitFailed, []string{"does not exist"},
		},
	} {
		var asked string
		f := operatorThat(t, func(w http.ResponseWriter, r *http.Request) {
			asked = r.Method + " " + r.URL.Path
			_, _ = io.WriteString(w, `{"limiter":"a/b","replicas":[`+test.replicas+`]}`)
		})
		output, status := redisCheck(t, f, "a/b")
		if status != test.status || asked != "GET /admin/v1/limiters/a/b/redis" {
			t.Errorf("%s: status %d, asked %q:\n%s", name, status, asked, output)
		}
		for _, want := range test.wants {
			if !strings.Contains(strings.Join(strings.Fields(output), " "), strings.Join(strings.Fields(want), " ")) {
				t.Errorf("%s: the output does not contain %q:\n%s", name, want, output)
			}
		}
	}
}

func TestRedisCheck_PrintsAnObjectForEachReplica(t *testing.T) {
	f := fakeOperator(t, `{"limiter":"a/b","replicas":[{"pod":"x","status":200,"body":`+usable+`},{"pod":"y","status":200,"sameAs":"x"}]}`)
	output, status := redisCheck(t, f, "-o", "json")
	if status != 0 || strings.Count(output, `"replica": "`) != 2 || !strings.Contains(output, `"usable": true`) {
		t.Errorf("status %d:\n%s", status, output)
	}
}

func TestRedisCheck_RejectsAnInvalidCommandLine(t *testing.T) {
	f := fakeOperator(t, "")
	for name, arguments := range map[string][]string{"an output": {"-o", "yaml"}, "two Limiters": {"a/b", "a/c"}, "a Limiter": {"a/b/c"}} {
		if output, status := redisCheck(t, f, arguments...); status != cli.ExitUsage {
			t.Errorf("%s: status %d:\n%s", name, status, output)
		}
	}
}
