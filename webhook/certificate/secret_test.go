package certificate

import (
	"encoding/pem"
	"maps"
	"strings"
	"testing"
)

func TestDecode_RejectsAnInvalidSecret(t *testing.T) {
	w := newSimulation(DefaultRotation(serviceName))
	w.reconcile(t, true)
	good, err := w.state.encode()
	if err != nil {
		t.Fatal(err)
	}
	other := newSimulation(DefaultRotation(serviceName))
	other.reconcile(t, true)
	foreign, err := other.state.encode()
	if err != nil {
		t.Fatal(err)
	}
	for what, change := range map[string]func(data map[string][]byte){
		"no certificate":                 func(d map[string][]byte) { delete(d, keyCertificate) },
		"no key":                         func(d map[string][]byte) { delete(d, keyPrivate) },
		"no CAs":                         func(d map[string][]byte) { delete(d, keyCAs) },
		"an invalid certificate":         func(d map[string][]byte) { d[keyCertificate] = []byte("-----BEGIN CERTIFICATE-----\nAAAA\n") },
		"two certificates":               func(d map[string][]byte) { d[keyCertificate] = append(d[keyCertificate], foreign[keyCertificate]...) },
		"the key of another certificate": func(d map[string][]byte) { d[keyPrivate] = foreign[keyPrivate] },
		"a key that is not PEM":          func(d map[string][]byte) { d[keyPrivate] = []byte("secret") },
		"a key that is not DER": func(d map[string][]byte) {
			d[keyPrivate] = []byte("-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n")
		},
		"truncated CAs": func(d map[string][]byte) { d[keyCAs] = d[keyCAs][:99] },
	} {
		t.Run(what, func(t *testing.T) {
			data := maps.Clone(good)
			change(data)
			_, err := decode(data)
			if err == nil {
				t.Fatal("decode accepted it")
			}
			if strings.Contains(err.Error(), "secret") {
				t.Errorf("the error contains the key: %v", err)
			}
		})
	}
	if _, err := decode(good); err != nil {
		t.Error(err)
	}
}

// A bundle may have text and other blocks between the certificates.
func TestDecodeCertificates_SkipsEverythingElse(t *testing.T) {
	w := newSimulation(DefaultRotation(serviceName))
	w.reconcile(t, true)
	der := w.state.Serving.Certificate.Raw
	var bundle []byte
	for _, block := range []*pem.Block{
		{Type: "PRIVATE KEY", Bytes: der},
		{Type: "CERTIFICATE", Headers: map[string]string{"a": "b"}, Bytes: der},
		{Type: "CERTIFICATE", Bytes: der[:9]},
		{Type: "CERTIFICATE", Bytes: der},
		{Type: "CERTIFICATE", Bytes: w.state.CAs[0].Certificate.Raw},
	} {
		bundle = append(append(bundle, "a comment\n"...), pem.EncodeToMemory(block)...)
	}
	found := decodeCertificates(bundle)
	if len(found) != 2 || !found[0].Equal(w.state.Serving.Certificate) || !found[1].Equal(w.state.CAs[0].Certificate) {
		t.Errorf("found %d certificates, want the last two", len(found))
	}
}

func FuzzDecode(f *testing.F) {
	w := newSimulation(DefaultRotation(serviceName))
	w.reconcile(f, true)
	good, err := w.state.encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good[keyCertificate], good[keyPrivate], good[keyCAs])
	f.Fuzz(func(t *testing.T, certificate, key, cas []byte) {
		s, err := decode(map[string][]byte{keyCertificate: certificate, keyPrivate: key, keyCAs: cas})
		if err != nil {
			return
		}
		// Advance must be able to continue from every decoded state.
		if _, err := DefaultRotation(serviceName).Advance(s, Bundles{cas}, w.now); err != nil {
			t.Fatal(err)
		}
	})
}
