package main

import (
	"bytes"
	"net/http"
	"testing"

	"github.com/weir-dev/weir/limiter/admin"
)

func TestConnect_KeepsTheConnectionOnlyForCommandsThatReuseIt(t *testing.T) {
	for _, reuse := range []bool{false, true} {
		f := &fakeOperator(t, "").cluster
		f.reuse = reuse
		stopped := 0
		connect := func() *http.Client {
			_, client, done, err := f.connect(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if f.kept != nil {
				f.kept.stop = func() { stopped++ }
			}
			done()
			return client
		}
		first := connect()
		if second := connect(); (first == second) != reuse || stopped > 0 {
			t.Errorf("reuse %t: same connection %t, ended %d times", reuse, first == second, stopped)
		}
		f.disconnect()
		f.disconnect()
		if third := connect(); third == first || reuse && stopped != 1 {
			t.Errorf("reuse %t: the connection remains after its end, ended %d times", reuse, stopped)
		}
		f.disconnect()
	}
}

// A forwarded port ends with the pod to which it leads: the next call must open another one.
func TestAskCluster_DropsAConnectionThatFails(t *testing.T) {
	f := &fakeOperator(t, `{"limiter":"a/b","replicas":[{"pod":"x","status":200,"body":{"revision":"r"}}]}`).cluster
	f.reuse = true
	ask := func() error {
		_, _, err := askCluster[admin.RuleSet](t.Context(), f, http.MethodGet, "/admin/v1/rules", nil, &bytes.Buffer{})
		return err
	}
	if err := ask(); err != nil || f.kept == nil {
		t.Fatalf("%v, connection %v", err, f.kept)
	}
	f.kept.base = "https://127.0.0.1:1"
	if err := ask(); err == nil || f.kept != nil {
		t.Errorf("%v, connection %v", err, f.kept)
	}
	if err := ask(); err != nil {
		t.Error(err)
	}
	f.disconnect()
}
