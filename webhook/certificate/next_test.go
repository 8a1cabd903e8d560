package certificate

import (
	"bytes"
	"crypto/x509"
	"testing"
	"time"

	"pgregory.net/rapid"
)

const day = 24 * time.Hour

// name is whom the certificates of these tests are for.
const name = "weir-webhook.weir-system.svc"

// world is a Secret, the webhook configurations, and who reads them late: every version of both, with its time.
type world struct {
	terms   Terms
	now     time.Time
	state   State
	carried Bundles

	bundles []version[[]byte]
	served  []version[Pair]
}

type version[T any] struct {
	since time.Time
	is    T
}

func newWorld(terms Terms) *world {
	return &world{terms: terms, now: time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC), carried: Bundles{nil, nil}}
}

// reconcile is one round of the Rotator; without published it ends before the bundle is written.
func (w *world) reconcile(t require, published bool) {
	t.Helper()
	next, err := w.terms.Next(w.state, w.carried, w.now)
	if err != nil {
		t.Fatal(err)
	}
	w.state = next
	if last := len(w.served) - 1; last < 0 || !w.served[last].is.Certificate.Equal(next.Serving.Certificate) {
		w.served = append(w.served, version[Pair]{w.now, next.Serving})
	}
	if !published {
		return
	}
	w.carried = Bundles{next.Bundle(), next.Bundle()}
	if last := len(w.bundles) - 1; last < 0 || !bytes.Equal(w.bundles[last].is, next.Bundle()) {
		w.bundles = append(w.bundles, version[[]byte]{w.now, next.Bundle()})
	}
}

type require interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// inForce returns the versions that somebody may go by who is late by up to lag.
func inForce[T any](versions []version[T], now time.Time, lag time.Duration) []version[T] {
	first := 0
	for i, v := range versions {
		if !v.since.After(now.Add(-lag)) {
			first = i
		}
	}
	return versions[first:]
}

// mustVerify wants every API server that is late by up to bundleLag to accept every replica that is late by up to servedLag.
func (w *world) mustVerify(t require, bundleLag, servedLag time.Duration) {
	t.Helper()
	for _, bundle := range inForce(w.bundles, w.now, bundleLag) {
		for _, served := range inForce(w.served, w.now, servedLag) {
			if err := verify(bundle.is, served.is, w.now); err != nil {
				t.Fatalf("at %v, with the bundle of %v, the certificate of %v: %v", w.now, bundle.since, served.since, err)
			}
		}
	}
}

// mustVerifyNow wants those who are never late to agree. Clocks may have jumped before.
func (w *world) mustVerifyNow(t require) {
	t.Helper()
	if err := verify(w.carried[0], w.state.Serving, w.now); err != nil {
		t.Fatalf("at %v: %v", w.now, err)
	}
}

func verify(bundle []byte, served Pair, now time.Time) error {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(bundle)
	_, err := served.Certificate.Verify(x509.VerifyOptions{DNSName: name, Roots: roots, CurrentTime: now})
	return err
}

func drawTerms(t *rapid.T) Terms {
	certificate := time.Duration(rapid.Int64Range(int64(day), int64(90*day)).Draw(t, "certificate"))
	return Terms{
		Names:       []string{name},
		Certificate: certificate,
		Authority:   time.Duration(rapid.Int64Range(3, 20).Draw(t, "authority")) * certificate,
		Settle:      certificate / time.Duration(rapid.SampledFrom([]int64{6, 7, 12, 64, 10_000}).Draw(t, "settle is a fraction")),
	}
}

func TestAtEveryInstantWhoIsLateVerifiesWhatIsServed(t *testing.T) {
	rotations := 0
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(drawTerms(t))
		servedLag := time.Duration(rapid.Int64Range(0, int64(w.terms.Certificate/8)).Draw(t, "replicas are late by"))
		w.reconcile(t, true)
		w.reconcile(t, true)
		authorities := map[string]bool{}
		for range 60 {
			w.now = w.now.Add(pause(t, w.terms))
			w.mustVerify(t, w.terms.Settle, servedLag)
			w.reconcile(t, rapid.IntRange(0, 3).Draw(t, "written") > 0)
			w.mustVerify(t, w.terms.Settle, servedLag)
			w.state = mustRoundTrip(t, w.state)
			authorities[string(w.state.Serving.Certificate.AuthorityKeyId)] = true
			if len(w.state.Authorities) > 3 {
				t.Fatalf("%d authorities are trusted", len(w.state.Authorities))
			}
		}
		rotations += len(authorities) - 1
	})
	if rotations == 0 {
		t.Error("no authority was ever replaced")
	}
}

// pause is up to an eighth of a certificate's life: long ones as often as moments.
func pause(t *rapid.T, terms Terms) time.Duration {
	eighths := []time.Duration{time.Second, terms.Settle / 8, terms.Certificate / 64, terms.Certificate / 9, terms.Certificate / 8}
	return rapid.SampledFrom(eighths).Draw(t, "pause")
}

func mustRoundTrip(t require, s State) State {
	t.Helper()
	data, err := s.encode()
	if err != nil {
		t.Fatal(err)
	}
	again, err := decode(data)
	if err != nil {
		t.Fatal(err)
	}
	return again
}

func TestWhateverHappenedItHeals(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(drawTerms(t))
		w.reconcile(t, true)
		for range rapid.IntRange(1, 8).Draw(t, "accidents") {
			switch rapid.SampledFrom([]string{"time", "clock", "secret", "bundle", "other bundle", "names", "round"}).Draw(t, "accident") {
			case "time":
				w.now = w.now.Add(time.Duration(rapid.Int64Range(0, int64(2*w.terms.Authority)).Draw(t, "away")))
			case "clock":
				w.now = w.now.Add(-time.Duration(rapid.Int64Range(0, int64(w.terms.Certificate)).Draw(t, "back")))
			case "secret":
				held := rapid.SampledFrom([]Pair{{}, w.state.Serving}).Draw(t, "held")
				w.state = w.terms.Recover(held, w.carried, w.now)
			case "bundle":
				w.carried = Bundles{nil, w.carried[1]}
			case "other bundle":
				other, err := newAuthority(w.terms.Authority, w.now)
				if err != nil {
					t.Fatal(err)
				}
				w.carried = Bundles{State{Authorities: []Authority{{Pair: other}}}.Bundle(), []byte("garbage")}
			case "names":
				w.state.Serving = Pair{}
			case "round":
				w.reconcile(t, rapid.Bool().Draw(t, "written"))
			}
		}
		w.reconcile(t, true)
		w.mustVerifyNow(t)
		for range 3 { // what was about to expire is replaced as soon as anybody is trusted
			w.now = w.now.Add(w.terms.Settle)
			w.reconcile(t, true)
			w.mustVerifyNow(t)
		}
		for range 30 { // and then it stays well
			w.now = w.now.Add(w.terms.Certificate / 8)
			w.mustVerifyNow(t)
			w.reconcile(t, true)
			w.mustVerifyNow(t)
		}
		if len(w.state.Authorities) > 3 {
			t.Fatalf("%d authorities are trusted in the end", len(w.state.Authorities))
		}
	})
}

func TestALostSecretIsRestoredWithoutAGapByWhoStillServes(t *testing.T) {
	w := newWorld(DefaultTerms(name))
	w.reconcile(t, true)
	w.now = w.now.Add(day)
	w.reconcile(t, true)
	before := w.state.Serving
	w.state = w.terms.Recover(before, w.carried, w.now)
	w.reconcile(t, true)
	if !w.state.Serving.Certificate.Equal(before.Certificate) {
		t.Fatal("another certificate serves before its authority is trusted")
	}
	for range 20 {
		w.now = w.now.Add(time.Minute)
		w.reconcile(t, true)
		w.mustVerify(t, w.terms.Settle, w.terms.Settle)
	}
	if w.state.Serving.Certificate.Equal(before.Certificate) {
		t.Error("the authority whose key is lost still has the last word")
	}
}

func TestAnAuthorityThatIsTakenOutOfABundleIsNotTrustedUntilItHasBeenBackForAWhile(t *testing.T) {
	w := newWorld(DefaultTerms(name))
	w.reconcile(t, true)
	w.reconcile(t, true)
	before, serving := w.carried, w.state.Serving
	w.now = w.now.Add(w.terms.Authority/3*2 + day) // the certificate has expired, and the authority is to be replaced
	for range 2 {
		w.reconcile(t, true)
		w.now = w.now.Add(w.terms.Settle / 2)
	}
	if len(w.state.Authorities) != 2 || w.state.Serving.Certificate.Equal(serving.Certificate) {
		t.Fatalf("%d authorities, want the old, which serves again, and the new", len(w.state.Authorities))
	}
	serving = w.state.Serving
	w.carried = Bundles{before[0], w.carried[1]} // somebody restores one of the configurations
	for range 3 {
		w.reconcile(t, true)
		if !w.state.Serving.Certificate.Equal(serving.Certificate) {
			t.Fatal("the new authority has signed what serves, and not everybody knows it")
		}
		w.now = w.now.Add(w.terms.Settle / 2)
	}
	w.reconcile(t, true)
	if w.state.Serving.Certificate.Equal(serving.Certificate) {
		t.Error("all have known the new authority for long enough, and it has signed nothing")
	}
}

func TestAYearOfRoundsIssuesNoMoreThanItMust(t *testing.T) {
	w := newWorld(DefaultTerms(name))
	issued := map[string]bool{}
	for range 365 * 2 {
		w.reconcile(t, true)
		issued[string(w.state.Serving.Certificate.Raw)] = true
		w.now = w.now.Add(day / 2)
	}
	if len(issued) != 7 || len(w.state.Authorities) != 1 { // every 60 days
		t.Errorf("%d certificates and %d authorities, want 7 and 1", len(issued), len(w.state.Authorities))
	}
}

func TestTheSameStateIsNotWrittenAgain(t *testing.T) {
	w := newWorld(DefaultTerms(name))
	w.reconcile(t, true)
	w.reconcile(t, true)
	before, err := w.state.encode()
	if err != nil {
		t.Fatal(err)
	}
	w.now = w.now.Add(time.Hour)
	w.reconcile(t, true)
	after, err := w.state.encode()
	if err != nil {
		t.Fatal(err)
	}
	if !same(before, after) {
		t.Errorf("%s became %s", before[keyAuthorities], after[keyAuthorities])
	}
}

func TestACertificateForOthersIsReplacedAtOnce(t *testing.T) {
	w := newWorld(DefaultTerms("before.weir-system.svc"))
	w.reconcile(t, true)
	w.terms.Names = []string{name, "127.0.0.1"}
	w.reconcile(t, true)
	w.mustVerify(t, 0, 0)
	if ips := w.state.Serving.Certificate.IPAddresses; len(ips) != 1 || ips[0].String() != "127.0.0.1" {
		t.Errorf("addresses %v", ips)
	}
}

func TestLifetimesThatLeaveNoTimeForARotationAreRefused(t *testing.T) {
	for what, change := range map[string]func(*Terms){
		"no names":                             func(t *Terms) { t.Names = nil },
		"no lifetime":                          func(t *Terms) { t.Certificate = 0 },
		"an authority shorter than three":      func(t *Terms) { t.Authority = 3*t.Certificate - 1 },
		"a wait longer than a sixth":           func(t *Terms) { t.Settle = t.Certificate/6 + time.Minute },
		"a negative wait":                      func(t *Terms) { t.Settle = -1 },
		"negative lifetimes, however related,": func(t *Terms) { t.Certificate, t.Authority = -day, -2*day },
	} {
		terms := DefaultTerms(name)
		change(&terms)
		if _, err := NewRotator(Config{Terms: terms}); err == nil {
			t.Errorf("%s passed", what)
		}
	}
	if _, err := NewRotator(Config{Terms: DefaultTerms(name)}); err != nil {
		t.Error(err)
	}
}
