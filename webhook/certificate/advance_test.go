package certificate

import (
	"bytes"
	"crypto/x509"
	"testing"
	"time"

	"pgregory.net/rapid"
)

const day = 24 * time.Hour

// serviceName is the name that the certificates of these tests are for.
const serviceName = "weir-webhook.weir-system.svc"

// simulation holds the Secret, the webhook configurations and all their past versions with their times, for readers that are late.
type simulation struct {
	rotation  Rotation
	now       time.Time
	state     State
	published Bundles

	bundles []version[[]byte]
	served  []version[Pair]

	verified map[[2]int]validity // by the indexes of the bundle and of the served pair
}

// validity is the time in which all certificates of a chain are valid.
type validity struct{ begin, end time.Time }

type version[T any] struct {
	since time.Time
	value T
}

func newSimulation(rotation Rotation) *simulation {
	return &simulation{rotation: rotation, now: time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC), published: Bundles{nil, nil}, verified: map[[2]int]validity{}}
}

// reconcile runs one round of the Rotator. With published false the round fails before it publishes the bundle.
func (w *simulation) reconcile(t testingT, published bool) {
	t.Helper()
	next, err := w.rotation.Advance(w.state, w.published, w.now)
	if err != nil {
		t.Fatal(err)
	}
	w.state = next
	if last := len(w.served) - 1; last < 0 || !w.served[last].value.Certificate.Equal(next.Serving.Certificate) {
		w.served = append(w.served, version[Pair]{w.now, next.Serving})
	}
	if !published {
		return
	}
	w.published = Bundles{next.Bundle(), next.Bundle()}
	if last := len(w.bundles) - 1; last < 0 || !bytes.Equal(w.bundles[last].value, next.Bundle()) {
		w.bundles = append(w.bundles, version[[]byte]{w.now, next.Bundle()})
	}
}

type testingT interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// oldest returns the index of the first version that a reader who is late by up to lag may see. It may see all later ones.
func oldest[T any](versions []version[T], now time.Time, lag time.Duration) int {
	first := 0
	for i, v := range versions {
		if !v.since.After(now.Add(-lag)) {
			first = i
		}
	}
	return first
}

// mustVerify requires that every API server that is late by up to bundleLag accepts every replica that is late by up to servedLag.
func (w *simulation) mustVerify(t testingT, bundleLag, servedLag time.Duration) {
	t.Helper()
	for b := oldest(w.bundles, w.now, bundleLag); b < len(w.bundles); b++ {
		for p := oldest(w.served, w.now, servedLag); p < len(w.served); p++ {
			// A chain that was verified once is valid as long as all its certificates.
			if seen, ok := w.verified[[2]int{b, p}]; ok && !w.now.Before(seen.begin) && !w.now.After(seen.end) {
				continue
			}
			bundle, served := w.bundles[b], w.served[p]
			valid, err := verify(bundle.value, served.value, w.now)
			if err != nil {
				t.Fatalf("at %v, the bundle of %v does not verify the certificate of %v: %v", w.now, bundle.since, served.since, err)
			}
			w.verified[[2]int{b, p}] = valid
		}
	}
}

// mustVerifyNow requires that readers without lag agree. The clock may have jumped before.
func (w *simulation) mustVerifyNow(t testingT) {
	t.Helper()
	if _, err := verify(w.published[0], w.state.Serving, w.now); err != nil {
		t.Fatalf("at %v: %v", w.now, err)
	}
}

func verify(bundle []byte, served Pair, now time.Time) (validity, error) {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(bundle)
	chains, err := served.Certificate.Verify(x509.VerifyOptions{DNSName: serviceName, Roots: roots, CurrentTime: now})
	if err != nil {
		return validity{}, err
	}
	valid := validity{served.Certificate.NotBefore, served.Certificate.NotAfter}
	for _, c := range chains[0] {
		if c.NotBefore.After(valid.begin) {
			valid.begin = c.NotBefore
		}
		if c.NotAfter.Before(valid.end) {
			valid.end = c.NotAfter
		}
	}
	return valid, nil
}

func drawRotation(t *rapid.T) Rotation {
	certificate := time.Duration(rapid.Int64Range(int64(day), int64(90*day)).Draw(t, "certificate"))
	return Rotation{
		Names:               []string{serviceName},
		CertificateLifetime: certificate,
		CALifetime:          time.Duration(rapid.Int64Range(3, 20).Draw(t, "CA lifetime in certificates")) * certificate,
		SettleTime:          certificate / time.Duration(rapid.SampledFrom([]int64{6, 7, 12, 64, 10_000}).Draw(t, "settle is a fraction")),
	}
}

func TestAdvance_LateClientsAlwaysVerifyWhatIsServed(t *testing.T) {
	rotations := 0
	rapid.Check(t, func(t *rapid.T) {
		w := newSimulation(drawRotation(t))
		servedLag := time.Duration(rapid.Int64Range(0, int64(w.rotation.CertificateLifetime/8)).Draw(t, "replicas are late by"))
		w.reconcile(t, true)
		w.reconcile(t, true)
		cas := map[string]bool{}
		for range 60 {
			w.now = w.now.Add(pause(t, w.rotation))
			w.mustVerify(t, w.rotation.SettleTime, servedLag)
			w.reconcile(t, rapid.IntRange(0, 3).Draw(t, "written") > 0)
			w.mustVerify(t, w.rotation.SettleTime, servedLag)
			if rapid.IntRange(0, 7).Draw(t, "restart") == 0 {
				w.state = mustRoundTrip(t, w.state)
			}
			cas[string(w.state.Serving.Certificate.AuthorityKeyId)] = true
			if len(w.state.CAs) > 3 {
				t.Fatalf("%d CAs are trusted, want at most 3", len(w.state.CAs))
			}
		}
		rotations += len(cas) - 1
	})
	if rotations == 0 {
		t.Error("no CA was ever replaced")
	}
}

// pause draws up to an eighth of a certificate's lifetime. Long and short pauses are equally likely.
func pause(t *rapid.T, rotation Rotation) time.Duration {
	eighths := []time.Duration{time.Second, rotation.SettleTime / 8, rotation.CertificateLifetime / 64, rotation.CertificateLifetime / 9, rotation.CertificateLifetime / 8}
	return rapid.SampledFrom(eighths).Draw(t, "pause")
}

func mustRoundTrip(t testingT, s State) State {
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

func TestAdvance_RecoversFromEveryAccident(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newSimulation(drawRotation(t))
		w.reconcile(t, true)
		for range rapid.IntRange(1, 8).Draw(t, "accidents") {
			switch rapid.SampledFrom([]string{"time", "clock", "secret", "bundle", "other bundle", "names", "round"}).Draw(t, "accident") {
			case "time":
				w.now = w.now.Add(time.Duration(rapid.Int64Range(0, int64(2*w.rotation.CALifetime)).Draw(t, "pause")))
			case "clock":
				w.now = w.now.Add(-time.Duration(rapid.Int64Range(0, int64(w.rotation.CertificateLifetime)).Draw(t, "back")))
			case "secret":
				held := rapid.SampledFrom([]Pair{{}, w.state.Serving}).Draw(t, "held")
				w.state = w.rotation.Recover(held, w.published, w.now)
			case "bundle":
				w.published = Bundles{nil, w.published[1]}
			case "other bundle":
				other, err := newCA(w.rotation.CALifetime, w.now)
				if err != nil {
					t.Fatal(err)
				}
				w.published = Bundles{State{CAs: []CA{{Pair: other}}}.Bundle(), []byte("garbage")}
			case "names":
				w.state.Serving = Pair{}
			case "round":
				w.reconcile(t, rapid.Bool().Draw(t, "written"))
			}
		}
		w.reconcile(t, true)
		w.mustVerifyNow(t)
		for range 3 { // an expiring certificate is replaced as soon as a CA is trusted
			w.now = w.now.Add(w.rotation.SettleTime)
			w.reconcile(t, true)
			w.mustVerifyNow(t)
		}
		for range 30 { // and then no problem remains
			w.now = w.now.Add(w.rotation.CertificateLifetime / 8)
			w.mustVerifyNow(t)
			w.reconcile(t, true)
			w.mustVerifyNow(t)
		}
		if len(w.state.CAs) > 3 {
			t.Fatalf("%d CAs are trusted in the end, want at most 3", len(w.state.CAs))
		}
	})
}

func TestRecover_RestoresALostSecretWithoutInterruption(t *testing.T) {
	w := newSimulation(DefaultRotation(serviceName))
	w.reconcile(t, true)
	w.now = w.now.Add(day)
	w.reconcile(t, true)
	before := w.state.Serving
	w.state = w.rotation.Recover(before, w.published, w.now)
	w.reconcile(t, true)
	if !w.state.Serving.Certificate.Equal(before.Certificate) {
		t.Fatal("a new certificate is served before its CA is trusted")
	}
	for range 20 {
		w.now = w.now.Add(time.Minute)
		w.reconcile(t, true)
		w.mustVerify(t, w.rotation.SettleTime, w.rotation.SettleTime)
	}
	if w.state.Serving.Certificate.Equal(before.Certificate) {
		t.Error("the served certificate is still signed by the CA whose key is lost")
	}
}

func TestAdvance_WaitsAgainForACAThatWasRemovedFromABundle(t *testing.T) {
	w := newSimulation(DefaultRotation(serviceName))
	w.reconcile(t, true)
	w.reconcile(t, true)
	before, serving := w.published, w.state.Serving
	w.now = w.now.Add(w.rotation.CALifetime/3*2 + day) // the certificate has expired, and the CA must be replaced
	for range 2 {
		w.reconcile(t, true)
		w.now = w.now.Add(w.rotation.SettleTime / 2)
	}
	if len(w.state.CAs) != 2 || w.state.Serving.Certificate.Equal(serving.Certificate) {
		t.Fatalf("%d CAs, want two: the old one, which signed the served certificate, and the new one", len(w.state.CAs))
	}
	serving = w.state.Serving
	w.published = Bundles{before[0], w.published[1]} // a user restores an old version of one configuration
	for range 3 {
		w.reconcile(t, true)
		if !w.state.Serving.Certificate.Equal(serving.Certificate) {
			t.Fatal("the served certificate is signed by the new CA, which is not in every bundle")
		}
		w.now = w.now.Add(w.rotation.SettleTime / 2)
	}
	w.reconcile(t, true)
	if w.state.Serving.Certificate.Equal(serving.Certificate) {
		t.Error("the new CA was in all bundles for the settle time, but has signed nothing")
	}
}

func TestAdvance_IssuesOnlyDueCertificatesInAYear(t *testing.T) {
	w := newSimulation(DefaultRotation(serviceName))
	issued := map[string]bool{}
	for range 365 * 2 {
		w.reconcile(t, true)
		issued[string(w.state.Serving.Certificate.Raw)] = true
		w.now = w.now.Add(day / 2)
	}
	if len(issued) != 7 || len(w.state.CAs) != 1 { // every 60 days
		t.Errorf("%d certificates and %d CAs, want 7 and 1", len(issued), len(w.state.CAs))
	}
}

func TestAdvance_ReturnsTheSameStateWhenNothingIsDue(t *testing.T) {
	w := newSimulation(DefaultRotation(serviceName))
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
	if !containsAll(before, after) {
		t.Errorf("%s became %s", before[keyCAs], after[keyCAs])
	}
}

// An API server whose clock is behind must accept new certificates, and also those of a new CA.
func TestAdvance_IssuesCertificatesForClocksThatAreAnHourBehind(t *testing.T) {
	w := newSimulation(DefaultRotation(serviceName))
	w.reconcile(t, true)
	serving, ca := w.state.Serving.Certificate, w.state.CAs[0].Certificate
	for name, c := range map[string]*x509.Certificate{"the serving certificate": serving, "the CA": ca} {
		if want := w.now.Add(-time.Hour); !c.NotBefore.Equal(want) {
			t.Errorf("at %v, %s is valid from %v, want %v", w.now, name, c.NotBefore, want)
		}
	}
	if want := w.now.Add(90 * day); !serving.NotAfter.Equal(want) {
		t.Errorf("the serving certificate expires at %v, want %v", serving.NotAfter, want)
	}
	if want := w.now.Add(5 * 365 * day); !ca.NotAfter.Equal(want) {
		t.Errorf("the CA expires at %v, want %v", ca.NotAfter, want)
	}
	behind := w.now.Add(-time.Hour)
	if _, err := verify(w.published[0], w.state.Serving, behind); err != nil {
		t.Errorf("an API server at %v: %v", behind, err)
	}
	// The hour before the issue is no part of the lifetime: renewal is after 60 days, not earlier.
	for w.now = w.now.Add(60*day - time.Second); w.state.Serving.Certificate.Equal(serving); w.now = w.now.Add(time.Second) {
		w.reconcile(t, true)
	}
	if since := w.now.Add(-time.Second).Sub(serving.NotBefore.Add(time.Hour)); since != 60*day {
		t.Errorf("the certificate was renewed after %v, want %v", since, 60*day)
	}
}

func TestAdvance_ReplacesACertificateWithWrongNamesImmediately(t *testing.T) {
	w := newSimulation(DefaultRotation("before.weir-system.svc"))
	w.reconcile(t, true)
	for _, names := range [][]string{{serviceName, "127.0.0.1"}, {serviceName, "127.0.0.2"}, {serviceName, "127.0.0.2", "a.weir-system.svc"}, {serviceName}} {
		before := w.state.Serving.Certificate
		w.rotation.Names = names
		w.reconcile(t, true)
		w.mustVerifyNow(t)
		after := w.state.Serving.Certificate
		if found := len(after.DNSNames) + len(after.IPAddresses); found != len(names) || after.Equal(before) {
			t.Errorf("a certificate with %v and %v, want %v", after.DNSNames, after.IPAddresses, names)
		}
		for _, name := range names {
			if err := after.VerifyHostname(name); err != nil {
				t.Error(err)
			}
		}
	}
}

func TestAdvance_DoesNotChangeTheGivenState(t *testing.T) {
	w := newSimulation(DefaultRotation(serviceName))
	w.reconcile(t, true)
	for _, pause := range []time.Duration{time.Minute, 61 * day, 4 * 365 * day} { // the CA is published, then renewal, then the next CA
		w.now = w.now.Add(pause)
		given := w.state
		before, err := given.encode()
		if err != nil {
			t.Fatal(err)
		}
		w.reconcile(t, true)
		after, err := given.encode()
		if err != nil {
			t.Fatal(err)
		}
		if changed, err := w.state.encode(); err != nil || !containsAll(before, after) || containsAll(before, changed) {
			t.Errorf("after %v: Advance changed the given state, or nothing was due (%v)", pause, err)
		}
	}
}

// The key of the newest CA was removed from the Secret: a certificate that is due is renewed by the CA before it, which is trusted.
func TestAdvance_RenewsWithAnOlderCAIfTheNewestCannotSign(t *testing.T) {
	w := newSimulation(DefaultRotation(serviceName))
	w.reconcile(t, true)
	newest, err := newCA(w.rotation.CALifetime, w.now)
	if err != nil {
		t.Fatal(err)
	}
	w.state.CAs = append(w.state.CAs, CA{Pair: newest, NeededUntil: w.now.Add(90 * day)})
	w.state.CAs[0].NeededUntil = w.now.Add(90 * day)
	if w.state.Serving, err = newServing(w.rotation.Names, w.rotation.CertificateLifetime, newest, w.now); err != nil {
		t.Fatal(err)
	}
	w.state.CAs[1].Key = nil
	w.reconcile(t, true)
	w.now = w.now.Add(61 * day)
	w.published = Bundles{State{CAs: w.state.CAs[:2]}.Bundle()}
	w.reconcile(t, false)
	if signer := w.state.signer(); signer != 0 {
		t.Errorf("CA %d of %d signed the certificate that is served, want the first", signer, len(w.state.CAs))
	}
}

// The certificate that is served is due, but no CA that can sign is trusted yet: it stays until one is.
func TestAdvance_KeepsADueCertificateWhileNoCAIsTrusted(t *testing.T) {
	w := newSimulation(DefaultRotation(serviceName))
	w.reconcile(t, true)
	serving := w.state.Serving
	w.now = w.now.Add(61 * day)
	w.state = w.rotation.Recover(serving, w.published, w.now)
	w.reconcile(t, true)
	if !w.state.Serving.Certificate.Equal(serving.Certificate) {
		t.Fatal("the certificate was replaced by one that no API server trusts yet")
	}
	for range 3 {
		w.mustVerifyNow(t)
		w.now = w.now.Add(w.rotation.SettleTime)
		w.reconcile(t, true)
	}
	if w.state.Serving.Certificate.Equal(serving.Certificate) {
		t.Error("the certificate is not renewed")
	}
}

func TestNewServing_ExpiresNoLaterThanItsCA(t *testing.T) {
	now := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	ca, err := newCA(100*day, now)
	if err != nil {
		t.Fatal(err)
	}
	for lifetime, want := range map[time.Duration]time.Duration{90 * day: 90 * day, 100 * day: 100 * day, 101 * day: 100 * day} {
		serving, err := newServing([]string{serviceName}, lifetime, ca, now)
		if err != nil || !serving.Certificate.NotAfter.Equal(now.Add(want)) {
			t.Errorf("a lifetime of %v: expires at %v, want after %v (%v)", lifetime, serving.Certificate.NotAfter, want, err)
		}
	}
}

func TestRecover_TrustsValidCAsOnce(t *testing.T) {
	now := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	rotation := DefaultRotation(serviceName)
	issued := func(lifetime time.Duration, at time.Time) Pair {
		ca, err := newCA(lifetime, at)
		if err != nil {
			t.Fatal(err)
		}
		return ca
	}
	valid, expired := issued(10*day, now), issued(10*day, now.Add(-11*day))
	serving, err := newServing(rotation.Names, day, valid, now)
	if err != nil {
		t.Fatal(err)
	}
	bundle := func(pairs ...Pair) (text []byte) {
		for _, p := range pairs {
			text = append(text, encodeCertificate(p.Certificate)...)
		}
		return text
	}
	many := []Pair{valid}
	for range 5 {
		many = append(many, issued(10*day, now))
	}
	for name, test := range map[string]struct {
		published Bundles
		want      int
	}{
		"no bundle":                         {nil, 0},
		"the same CA in two bundles":        {Bundles{bundle(valid), bundle(valid, valid)}, 1},
		"different CAs":                     {Bundles{bundle(many[1]), bundle(many[2], valid)}, 3},
		"a CA that has expired":             {Bundles{bundle(expired, valid)}, 1},
		"a certificate that is not of a CA": {Bundles{bundle(serving, valid)}, 1},
		"more CAs than Weir ever has":       {Bundles{bundle(many[:3]...), bundle(many[3:]...)}, 4},
	} {
		s := rotation.Recover(Pair{}, test.published, now)
		if len(s.CAs) != test.want {
			t.Errorf("%s: %d CAs, want %d", name, len(s.CAs), test.want)
		}
		for _, ca := range s.CAs {
			if ca.Key != nil || !ca.NeededUntil.Equal(now.Add(90*day)) || ca.Certificate.Equal(expired.Certificate) || !ca.Certificate.IsCA {
				t.Errorf("%s: recovered %s, needed until %v", name, ca.Certificate.Subject, ca.NeededUntil)
			}
		}
	}
}

func TestNewRotator_RejectsLifetimesWithoutTimeToRotate(t *testing.T) {
	for what, change := range map[string]func(*Rotation){
		"no names":    func(t *Rotation) { t.Names = nil },
		"no lifetime": func(t *Rotation) { t.CertificateLifetime = 0 },
		"a CA lifetime below three certificate lifetimes": func(t *Rotation) { t.CALifetime = 3*t.CertificateLifetime - 1 },
		"a settle time above a sixth of the lifetime":     func(t *Rotation) { t.SettleTime = t.CertificateLifetime/6 + time.Minute },
		"a negative settle time":                          func(t *Rotation) { t.SettleTime = -1 },
		"no lifetime and no settle time":                  func(t *Rotation) { t.CertificateLifetime, t.SettleTime = 0, 0 },
		"negative lifetimes":                              func(t *Rotation) { t.CertificateLifetime, t.CALifetime = -day, -2*day },
	} {
		rotation := DefaultRotation(serviceName)
		change(&rotation)
		if _, err := NewRotator(Config{Rotation: rotation}); err == nil {
			t.Errorf("%s: accepted", what)
		}
	}
	for what, change := range map[string]func(*Rotation){
		"the default": func(*Rotation) {},
		"no lifetime to spare": func(t *Rotation) {
			t.SettleTime, t.CertificateLifetime, t.CALifetime = time.Hour, 6*time.Hour, 18*time.Hour
		},
		"no settle time": func(t *Rotation) { t.SettleTime = 0 },
	} {
		rotation := DefaultRotation(serviceName)
		change(&rotation)
		if _, err := NewRotator(Config{Rotation: rotation}); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
}
