package redisclient_test

import (
	"errors"
	"testing"

	"github.com/weir-dev/weir/limiter/redisclient"
	"github.com/weir-dev/weir/test/fixture"
)

// wantKind checks the kind of err, as this package and as other packages read it.
func wantKind(t *testing.T, err error, want string) {
	t.Helper()
	var withKind interface{ Kind() string }
	if got := redisclient.Kind(err); got != want || !errors.As(err, &withKind) || withKind.Kind() != want {
		t.Errorf("kind %q of %v, want %q", got, err, want)
	}
}

func TestKind_OfNilIsEmpty(t *testing.T) {
	if got := redisclient.Kind(nil); got != "" {
		t.Errorf("kind %q", got)
	}
	if err := redisclient.WithKind(nil); err != nil {
		t.Errorf("WithKind(nil) = %v", err)
	}
}

func TestRun_ReturnsAnErrorWithAKind(t *testing.T) {
	server := fixture.Redis(t)
	client := open(t, server.URL())
	fails := redisclient.NewScript("fails", "return redis.call('SET', KEYS[1], '1', 'PX', '0')")
	wantKind(t, client.Run(t.Context(), fails, []string{"key"}).Err(), redisclient.KindOther)
	server.Kill()
	err := client.Run(t.Context(), fails, []string{"key"}).Err()
	if kind := redisclient.Kind(err); kind != redisclient.KindUnreachable && kind != redisclient.KindDisconnected {
		t.Errorf("kind %q of %v", kind, err)
	}
	if !redisclient.IsOutage(err) {
		t.Errorf("%v is not an outage", err)
	}
}

func TestErrUnavailable_WasNotSent(t *testing.T) {
	wantKind(t, redisclient.ErrUnavailable, "unavailable")
	if redisclient.MayHaveRun(redisclient.ErrUnavailable) {
		t.Error("MayHaveRun = true")
	}
}
