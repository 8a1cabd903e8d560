package decisionlog_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-dev/weir/limiter/decisionlog"
)

// received returns the policies and identifiers of the records that a follower has received.
func received(f *decisionlog.Follower) (texts []string) {
	for {
		select {
		case r := <-f.Records():
			texts = append(texts, r.Result+" "+r.Policy+" "+r.Identifier)
		default:
			return texts
		}
	}
}

func TestFollow_SendsWhatTheFilterSelects(t *testing.T) {
	l := newLogging(t, decisionlog.Options{})
	secret := hashKey(t).Hash("sk-1")
	want := map[decisionlog.Filter]string{
		{}:                                       "allowed shop/trial acme, denied shop/tenant acme, denied shop/key " + secret,
		{Policy: "shop/tenant"}:                  "denied shop/tenant acme",
		{Policy: "shop/trial"}:                   "allowed shop/trial acme, allowed shop/trial acme",
		{Identifier: secret}:                     "denied shop/key " + secret,
		{Identifier: "sk-1"}:                     "",
		{Policy: "shop/key", Identifier: "acme"}: "",
		{Endpoint: "check", Policy: "shop/tenant"}: "denied shop/tenant acme",
		{Endpoint: "auth"}:                         "",
	}
	followers := map[decisionlog.Filter]*decisionlog.Follower{}
	for filter := range want {
		f, err := l.log.Follow(filter)
		if err != nil {
			t.Fatal(err)
		}
		followers[filter] = f
	}
	l.check(t, 3, "x-tenant-id", "acme")
	l.check(t, 3, "x-api-key", "sk-1")
	for filter, f := range followers {
		if got := strings.Join(received(f), ", "); got != want[filter] {
			t.Errorf("%+v: %s, want %s", filter, got, want[filter])
		}
		l.log.Unfollow(f)
	}
	l.check(t, 1, "x-tenant-id", "acme")
	if got := received(followers[decisionlog.Filter{}]); len(got) > 0 {
		t.Errorf("after Unfollow: %v", got)
	}
}

// An enforced policy denies the request, and a Shadow policy would deny it too. Its follower must not read that it denies.
func TestFollow_ShowsThatAShadowPolicyDeniesNothing(t *testing.T) {
	l := newLogging(t, decisionlog.Options{})
	f, err := l.log.Follow(decisionlog.Filter{Policy: "shop/trial"})
	if err != nil {
		t.Fatal(err)
	}
	l.check(t, 3, "x-tenant-id", "acme")
	<-f.Records() // only the Shadow policy would deny
	r := <-f.Records()
	if r.Policy != "shop/trial" || r.Result != "allowed" || r.RetryAfterMs != 0 ||
		!slices.Equal(r.Denied, []string{"shop/tenant"}) || !slices.Equal(r.ShadowDenied, []string{"shop/trial"}) {
		t.Errorf("%+v", r)
	}
}

func TestFollow_BoundsRecordsAndFollowers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLogging(t, decisionlog.Options{})
		var first *decisionlog.Follower
		for i := range 16 {
			f, err := l.log.Follow(decisionlog.Filter{Policy: "shop/tenant"})
			if err != nil {
				t.Fatal(err)
			}
			if i == 0 {
				first = f
			}
		}
		if _, err := l.log.Follow(decisionlog.Filter{}); !errors.Is(err, decisionlog.ErrTooManyFollowers) {
			t.Errorf("%v", err)
		}
		l.check(t, 2+1100, "x-tenant-id", "acme")
		if n, missed := len(received(first)), first.Dropped(); n != 1000 || missed != 100 {
			t.Errorf("%d records and %d dropped, want 1000 and 100", n, missed)
		}
		for range 2 {
			time.Sleep(time.Second)
			l.check(t, 600, "x-tenant-id", "acme")
		}
		if n, missed := len(received(first)), first.Dropped(); n != 1024 || missed != 1200-1024 {
			t.Errorf("%d records and %d dropped, want those that wait and the rest", n, missed)
		}
	})
}
