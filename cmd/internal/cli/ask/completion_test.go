package ask

import (
	"strings"
	"testing"

	"github.com/weir-dev/weir/cmd/internal/cli"
)

// A hash of a secret without "hash:" would be hashed again, but denials have it. A name that a terminal must not get cannot be completed.
func TestCompletion_MarksHashesAndLeavesOutControlCharacters(t *testing.T) {
	f := answering(`{"limiter":"a/b","replicas":[{"pod":"x","status":200,"body":{
		"denied":{"identifiers":[{"identifier":"5f3a","hashed":true},{"identifier":"b\u001b[2J"},{"identifier":"acme"}]},
		"allowed":{"identifiers":[{"identifier":"acme"},{"identifier":"zeta"}]}}}]}`)
	cmd := countersGetCommand(f)
	cmd.SetContext(t.Context())
	got, _ := cli.Completion(identifiers(f))(cmd, nil, "")
	logged, _ := cli.Completion(loggedIdentifiers(f))(cmd, nil, "")
	if strings.Join(got, " ") != "acme hash:5f3a zeta" || strings.Join(logged, " ") != "5f3a acme zeta" {
		t.Errorf("%q, of denials %q", got, logged)
	}
}

// Shells insert the common beginning of several completions as it is, and execute it as a part of the line. Clients choose identifiers.
func TestCompletion_LeavesOutWhatAShellExecutes(t *testing.T) {
	f := answering(`{"limiter":"a/b","replicas":[{"pod":"x","status":200,"body":{
		"denied":{"identifiers":[{"identifier":"acme$(id)a"},{"identifier":"acme$(id)b"},{"identifier":"acme` + "`id`" + `a"},{"identifier":"acme;reboot"}]},
		"allowed":{"identifiers":[{"identifier":"acme b"},{"identifier":"acme'"},{"identifier":"acme*"},{"identifier":"-acme"},{"identifier":"acmé"},
			{"identifier":"~acme"},{"identifier":"acme/A-1_x.y:z@q=0+,"}]}}}]}`)
	cmd := countersGetCommand(f)
	cmd.SetContext(t.Context())
	got, _ := cli.Completion(identifiers(f))(cmd, nil, "")
	if strings.Join(got, " ") != "acme/A-1_x.y:z@q=0+," {
		t.Errorf("%q, want only the identifier that a shell takes as it is", got)
	}
}
