package main

import (
	"net/http"
	"testing"
)

func TestConnect_KeepsTheConnectionOnlyForCommandsThatReuseIt(t *testing.T) {
	for _, reuse := range []bool{false, true} {
		f := fakeOperator(t, "")
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
func TestRequest_DropsAConnectionThatFails(t *testing.T) {
	f := fakeOperator(t, `{"limiter":"a/b","replicas":[{"pod":"x","status":200,"body":{"revision":"r"}}]}`)
	f.reuse = true
	ask := func() error {
		_, closeConnection, err := f.Request(t.Context(), http.MethodGet, "/admin/v1/rules", nil)
		if err == nil {
			closeConnection()
		}
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
