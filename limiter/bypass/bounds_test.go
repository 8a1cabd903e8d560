package bypass_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-dev/weir/limiter/bypass"
)

// many returns n bypasses of as many identifiers, ten for each namespace. Their names begin with prefix.
func many(n int, prefix string, now time.Time, lasts time.Duration) map[string]bypass.Bypass {
	all := map[string]bypass.Bypass{}
	for i := range n {
		b := of(fmt.Sprint(prefix, i), now, lasts)
		b.Policy, b.Identifier = fmt.Sprintf("n%d/daily", i/10), b.Name
		all[b.Name] = b
	}
	return all
}

func TestAdd_AcceptsTheLargestValues(t *testing.T) {
	now := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	text := func(n int) string { return strings.Repeat("x", n) }
	for name, change := range map[string]func(*bypass.Bypass){
		"name":       func(b *bypass.Bypass) { b.Name = text(600) },
		"policy":     func(b *bypass.Bypass) { b.Policy = text(600) },
		"identifier": func(b *bypass.Bypass) { b.Identifier = text(4096) },
		"reason":     func(b *bypass.Bypass) { b.Reason = text(1000) },
		"user":       func(b *bypass.Bypass) { b.CreatedBy = text(1000) },
		"clock":      func(b *bypass.Bypass) { *b = of("a", now.Add(5*time.Minute), time.Hour) },
		"expiry":     func(b *bypass.Bypass) { *b = of("a", now.Add(-time.Hour), time.Hour+1) },
	} {
		b := of("a", now, time.Hour)
		change(&b)
		if _, err := bypass.NewList(func() time.Time { return now }).Add(b); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestValidate_BoundsTheUserThatHasEndedABypass(t *testing.T) {
	now := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	b := of("a", now, time.Hour)
	if b.EndedBy = strings.Repeat("x", 1000); b.Validate(now) != nil {
		t.Errorf("1000 bytes: %v", b.Validate(now))
	}
	if b.EndedBy += "x"; b.Validate(now) == nil {
		t.Error("1001 bytes are accepted")
	}
}

func TestAll_ListsTheLatestFirst(t *testing.T) {
	now := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	l := bypass.NewList(func() time.Time { return now })
	for i, name := range []string{"old", "b", "a", "c", "new"} {
		add(t, l, of(name, now.Add(time.Duration((i+2)/3)*time.Second), time.Hour))
	}
	var names []string
	for _, b := range l.All() {
		names = append(names, b.Name)
	}
	if want := []string{"new", "a", "b", "c", "old"}; !slices.Equal(names, want) {
		t.Errorf("%q, want %q", names, want)
	}
}

func TestFind_PrefersTheNameOfTwoThatExpireTogether(t *testing.T) {
	now := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	l := bypass.NewList(func() time.Time { return now })
	for _, name := range []string{"c", "a", "b", "e", "d", "f"} {
		add(t, l, of(name, now, time.Hour))
	}
	if got := l.Active().Find("shop/daily", "acme"); got == nil || got.Name != "a" {
		t.Errorf("%+v, want a", got)
	}
}

func TestEnd_FindsNoBypassThatHasExpired(t *testing.T) {
	now := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	l := bypass.NewList(func() time.Time { return now })
	add(t, l, of("one", now, time.Hour))
	now = now.Add(time.Hour)
	if b, found := l.End("one", "joe"); found {
		t.Errorf("%+v", b)
	}
}

func TestActive_CountsPoliciesAndIdentifiers(t *testing.T) {
	now := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	l := bypass.NewList(func() time.Time { return now })
	if n := l.Active().Len(); n != 0 {
		t.Errorf("%d without a bypass", n)
	}
	if n := (*bypass.List)(nil).Active().Len(); n != 0 {
		t.Errorf("%d without a list", n)
	}
	for _, identifier := range []string{"acme", "globex", "initech"} {
		b := of(identifier, now, time.Hour)
		b.Identifier = identifier
		add(t, l, b)
		b.Name, b.Policy = "other-"+identifier, "bank/daily"
		add(t, l, b)
	}
	if n := l.Active().Len(); n != 6 {
		t.Errorf("%d, want three of each policy", n)
	}
}

func TestAdd_BoundsEachNamespace(t *testing.T) {
	now := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	l := bypass.NewList(func() time.Time { return now })
	of := func(namespace string, i int) bypass.Bypass {
		b := of(fmt.Sprint(namespace, i), now, time.Hour)
		b.Policy = namespace + "/daily"
		return b
	}
	for i := range 100 {
		add(t, l, of("shop", i))
		add(t, l, of("cluster", i))
		add(t, l, of("_cluster", i))
	}
	for scope, want := range map[string]string{
		"shop": "policies of namespace shop have", "cluster": "policies of namespace cluster have", "_cluster": "policies of the cluster have",
	} {
		if _, err := l.Add(of(scope, 100)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("another bypass of %s: %v, want %s", scope, err, want)
		}
	}
}

func TestAll_LeavesOutWhatHasExpired(t *testing.T) {
	now := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	l := bypass.NewList(func() time.Time { return now })
	add(t, l, of("one", now, time.Hour))
	now = now.Add(time.Hour)
	if all := l.All(); len(all) > 0 {
		t.Errorf("%+v", all)
	}
}

// Ended entries stay in the list until they expire.
func TestEnd_LeavesOthersActive(t *testing.T) {
	now := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	l := bypass.NewList(func() time.Time { return now })
	for i := range 40 {
		b := of(fmt.Sprint("b", i), now, 5*time.Minute)
		b.Identifier = b.Name
		add(t, l, b)
	}
	for i := range 20 {
		l.End(fmt.Sprint("b", i), "joe")
	}
	for i := range 40 {
		if found := l.Active().Find("shop/daily", fmt.Sprint("b", i)) != nil; found != (i >= 20) {
			t.Errorf("b%d: active %v", i, found)
		}
	}
	now = now.Add(11 * time.Minute)
	for i := range 40 {
		if passed := l.HasPassed("shop/daily", fmt.Sprint("b", i)); passed != (i >= 20) { // the others ended 11 minutes ago
			t.Errorf("b%d: has passed %v", i, passed)
		}
	}
}

// A list need not be read between the end of a bypass and a refund.
func TestHasPassed_CountsFromTheExpiryEvenIfItIsNoticedLater(t *testing.T) {
	now := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	for after, want := range map[time.Duration]bool{5 * time.Minute: true, 11*time.Minute - 1: true, 11 * time.Minute: false} {
		at := now
		l := bypass.NewList(func() time.Time { return at })
		add(t, l, of("one", now, time.Minute))
		if at = now.Add(after); after > 11*time.Minute-2 {
			l.All() // removes it
		}
		if got := l.HasPassed("shop/daily", "acme"); got != want {
			t.Errorf("%v after the creation: %v, want %v", after, got, want)
		}
	}
}

// The Store bounds the bytes of all entries. JSON writes a "<" with six.
func TestAdd_BoundsTheBytesOfEntries(t *testing.T) {
	now := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	l := bypass.NewList(func() time.Time { return now })
	full := map[string]string{} // the error of a full namespace
	for _, namespace := range []string{"a", "b", "c", "d", "e"} {
		for i := range 500 {
			b := of(fmt.Sprint(namespace, i), now, time.Hour)
			b.Policy, b.Identifier, b.Reason = namespace+"/p", strings.Repeat("<", bypass.MaxIdentifier), strings.Repeat("<", bypass.MaxReason)
			if _, err := l.Add(b); err != nil {
				full[namespace] = err.Error()
				break
			}
			l.End(b.Name, "jane")
		}
	}
	if !strings.Contains(full["a"], "policies of namespace a would have") || !strings.Contains(full["e"], "policies of all namespaces would have") {
		t.Errorf("errors %q", full)
	}
	size, entries := 0, l.All()
	for i := range entries {
		text, err := json.Marshal(&entries[i])
		if err != nil {
			t.Fatal(err)
		}
		size += len(text)
	}
	if size > 4<<20 || size < 3<<20 { // EndedBy is written after an entry is admitted
		t.Errorf("%d entries have %d bytes", len(entries), size)
	}
}

// Another program can fill the Store. Bypasses that are in the list still end.
func TestRun_BoundsTheEntries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{entries: many(5000, "b", time.Now(), time.Hour)}
		ctx, cancel := context.WithCancel(t.Context())
		l := bypass.NewList(time.Now)
		go l.Run(ctx, s, slog.New(slog.DiscardHandler))
		synctest.Wait()
		if n := len(l.All()); n != 5000 {
			t.Errorf("%d entries, want 5000", n)
		}
		more := of("more", time.Now(), time.Hour)
		if _, err := l.Add(more); err == nil || !strings.Contains(err.Error(), "all namespaces have 5000 bypasses, of at most 5000") {
			t.Errorf("%v", err)
		}
		ended := s.entries["b7"]
		ended.EndedBy = "joe"
		if err := s.Save(ctx, []bypass.Bypass{more, ended}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		names := states(l)
		if len(names) != 5000 || slices.Contains(names, "more") || !slices.Contains(names, "-b7") {
			t.Errorf("%d entries, another one %v, ended %v", len(names), slices.Contains(names, "more"), slices.Contains(names, "-b7"))
		}
		cancel()
		synctest.Wait()
	})
}

func TestRun_BoundsWhatHasPassed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{}
		ctx, cancel := context.WithCancel(t.Context())
		l := bypass.NewList(time.Now)
		go l.Run(ctx, s, slog.New(slog.DiscardHandler))
		next := func(n int, generation string) {
			s.mu.Lock()
			s.entries = many(n, generation, time.Now(), 2*time.Second)
			s.mu.Unlock()
			time.Sleep(2 * time.Second)
			synctest.Wait()
		}
		next(5000, "a")
		next(5000, "b")
		next(1, "c")
		for _, of := range []struct {
			policy, identifier string
			want               bool
		}{{"n0/daily", "a7", true}, {"n499/daily", "b4999", true}, {"n0/daily", "c0", false}} {
			if got := l.HasPassed(of.policy, of.identifier); got != of.want {
				t.Errorf("%+v: %v", of, got)
			}
		}
		time.Sleep(10 * time.Minute)
		if next(1, "d"); !l.HasPassed("n0/daily", "d0") {
			t.Error("what was recorded ten minutes ago leaves no room")
		}
		cancel()
		synctest.Wait()
	})
}

func TestFind_PrefersBlocks(t *testing.T) {
	now := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	l := bypass.NewList(func() time.Time { return now })
	block := of("block", now, time.Minute)
	block.Blocks, block.Identifier, block.AllIdentifiers = true, "", true
	add(t, l, block)
	if got := l.Active(); got.Len() != 0 || got.Blocks() != 1 || (*bypass.List)(nil).Active().Blocks() != 0 {
		t.Errorf("%d bypasses and %d blocks", got.Len(), got.Blocks())
	}
	add(t, l, of("bypass", now, time.Hour))
	got := l.Active().Find("shop/daily", "acme")
	if got == nil || got.Name != "block" || l.Active().Left(got) != time.Minute {
		t.Errorf("%+v, want the block", got)
	}
	if l.HasPassed("shop/daily", "globex") {
		t.Error("a block counts as passed: its identifiers would get no refunds")
	}
	now = now.Add(time.Minute)
	if got := l.Active().Find("shop/daily", "acme"); got == nil || got.Name != "bypass" {
		t.Errorf("after the block: %+v, want the bypass", got)
	}
	if l.Active().Find("shop/daily", "globex") != nil {
		t.Error("an expired block applies")
	}
}
