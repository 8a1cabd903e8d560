package decisionlog_test

import (
	"bytes"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-dev/weir/limiter/decisionlog"
	"github.com/weir-dev/weir/limiter/engine"
	"github.com/weir-dev/weir/limiter/rules"
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
	for filter, f := range followers {
		if got := received(f); len(got) > 0 {
			t.Errorf("%+v after Unfollow: %v", filter, got)
		}
	}
}

// The follower began, or has ended, after the engine asked where the decision goes.
func TestDecided_SendsOnlyToWhatSelectHasChosen(t *testing.T) {
	var out bytes.Buffer
	l := newLogging(t, decisionlog.Options{Handler: slog.NewJSONHandler(&out, nil)})
	before := l.log.Select("shop", true)
	f, err := l.log.Follow(decisionlog.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	during := l.log.Select("shop", true)
	c := &engine.Check{Endpoint: "rls"}
	if l.log.Decided(before, c, answerOf(false, time.Second), false); len(received(f)) > 0 {
		t.Error("a follower receives a denial from before")
	}
	if l.log.Decided(during, c, answerOf(false, time.Second), false); len(received(f)) != 1 {
		t.Error("a follower does not receive a denial")
	}
	l.log.Unfollow(f)
	if l.log.Decided(during, c, answerOf(false, time.Second), false); len(received(f)) > 0 {
		t.Error("a follower receives a denial after its end")
	}
	if l.written(func() {}); out.Len() > 0 {
		t.Errorf("denials that are only followed are logged: %s", &out)
	}
}

func TestHasIdentifiers_UnlessTheyAreOmitted(t *testing.T) {
	for identifiers, want := range map[decisionlog.Identifiers]bool{decisionlog.Counted: true, decisionlog.Hashed: true, decisionlog.Omitted: false} {
		l := newLogging(t, decisionlog.Options{Identifiers: identifiers, HashKey: hashKey(t)})
		if got := l.log.HasIdentifiers(); got != want {
			t.Errorf("%s: %v", identifiers, got)
		}
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

func TestFollow_OneDomainLeavesOthersTheirShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		l := newLogging(t, decisionlog.Options{DenialsPerSecond: 10, Handler: slog.NewJSONHandler(&out, nil)})
		f, err := l.log.Follow(decisionlog.Filter{})
		if err != nil {
			t.Fatal(err)
		}
		of := map[string]int{}
		l.written(func() {
			for i := range 2000 {
				domain := "hostile"
				if i > 1997 {
					domain = "shop"
				}
				l.log.Decided(l.log.Select(domain, true), &engine.Check{Request: rules.Request{Domain: domain}}, answerOf(false, 0), false)
				if i == 1000 {
					received(f) // so that records have room
				}
			}
			for len(f.Records()) > 0 {
				of[(<-f.Records()).Domain]++
			}
		})
		written := map[any]int{}
		for _, line := range lines(t, &out) {
			written[line["domain"]]++
		}
		if of["shop"] != 2 || written["shop"] != 2 || written["hostile"] != 10 {
			t.Errorf("followed %v, written %v; want both denials of shop", of, written)
		}
	})
}

func TestFollow_BoundsRecordsAndFollowers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLogging(t, decisionlog.Options{})
		var all []*decisionlog.Follower
		for range 16 {
			f, err := l.log.Follow(decisionlog.Filter{Policy: "shop/tenant"})
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, f)
		}
		if _, err := l.log.Follow(decisionlog.Filter{}); !errors.Is(err, decisionlog.ErrTooManyFollowers) {
			t.Errorf("%v", err)
		}
		l.check(t, 2+1100, "x-tenant-id", "acme")
		for i, f := range all { // one that has received enough takes nothing from others
			if n, missed := len(received(f)), f.Dropped(); n != 1000 || missed != 100 {
				t.Errorf("follower %d: %d records and %d dropped, want 1000 and 100", i, n, missed)
			}
		}
		for range 2 {
			time.Sleep(time.Second)
			l.check(t, 600, "x-tenant-id", "acme")
		}
		if n, missed := len(received(all[0])), all[0].Dropped(); n != 1024 || missed != 1200-1024 {
			t.Errorf("%d records and %d dropped, want those that wait and the rest", n, missed)
		}
	})
}
