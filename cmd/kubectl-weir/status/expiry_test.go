package status

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-dev/weir/api/v1alpha1"
)

const day = 24 * time.Hour

// authority returns a CA with a life that ends left after now.
func authority(t *testing.T, now time.Time, life, left time.Duration) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	ends := now.Add(left)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: ends.Add(-life), NotAfter: ends}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func TestNew_ReportsCertificatesOfLimitersThatExpire(t *testing.T) {
	now := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	for use, want := range map[v1alpha1.CertificateUse]string{
		"Redis":              "certificate in Secret pair expires on 2026-12-06T12:00:00Z, and was not renewed in time: Redis rejects the replicas from then on redis-down",
		"HTTP":               "cannot connect from then on WeirRequestsFail",
		"GRPC":               "cannot connect from then on WeirRequestsFail",
		"KubernetesThrottle": "API servers cannot call the Limiter from then on policy-not-enforced",
	} {
		for left, isProblem := range map[time.Duration]bool{15 * day: false, 13 * day: true, 0: true} {
			o := healthy()
			o.Now = now
			o.Limiters[0].Status.Certificates = []v1alpha1.LimiterCertificate{{
				Use: use, Secret: "pair", NotBefore: metav1.NewTime(now.Add(left - 365*day)), NotAfter: metav1.NewTime(now.Add(left)),
			}}
			r := New(o)
			if r.Healthy == isProblem || len(r.Problems) > 1 {
				t.Errorf("%s with %v left: %+v", use, left, r.Problems)
			}
			if left == 13*day && len(r.Problems) == 1 {
				p := r.Problems[0]
				if got := p.Message + " " + strings.TrimSuffix(strings.TrimPrefix(p.Runbook, "docs/runbooks/"), ".md"); !strings.HasSuffix(got, want) {
					t.Errorf("%s: %s, want %s", use, got, want)
				}
			}
			line := strings.Fields(string(use) + " pair " + now.Add(left).Format("2006-01-02"))
			if table := printed(t, "table", r); !strings.Contains(strings.Join(strings.Fields(table), " "), strings.Join(line, " ")) {
				t.Errorf("%s: no line %q in\n%s", use, line, table)
			}
		}
	}
}

func TestNew_ReportsCAsThatExpire(t *testing.T) {
	now := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	ca := func(life, left time.Duration) []byte { return authority(t, now, life, left) }
	for name, test := range map[string]struct {
		first, second []byte // of two webhooks
		expires       time.Duration
		problem       string
	}{
		"valid":                      {ca(365*day, 15*day), ca(365*day, 100*day), 15 * day, ""},
		"thirteen days left":         {ca(365*day, 13*day), ca(365*day, 100*day), 13 * day, "the CA of webhook a expires on 2026-12-06T12:00:00Z"},
		"of the second webhook":      {ca(365*day, 100*day), ca(365*day, 13*day), 13 * day, "the CA of webhook b expires on 2026-12-06T12:00:00Z"},
		"expired":                    {ca(365*day, 0), ca(365*day, day), 0, "the CA of webhook a has expired on 2026-11-23T12:00:00Z"},
		"a short life":               {ca(8*day, 2*day+time.Hour), nil, 2*day + time.Hour, ""},
		"the end of a short life":    {ca(8*day, 2*day-time.Hour), nil, 2*day - time.Hour, "the CA of webhook a expires on 2026-11-25T11:00:00Z"},
		"an old CA and its follower": {bytes.Join([][]byte{ca(90*day, -day), ca(90*day, 80*day), ca(90*day, day)}, nil), nil, 80 * day, ""},
	} {
		o := healthy()
		o.Now = now
		o.Webhooks[0].Webhooks = append(o.Webhooks[0].Webhooks, *o.Webhooks[0].Webhooks[0].DeepCopy())
		for i, bundle := range [][]byte{test.first, test.second} {
			hook := &o.Webhooks[0].Webhooks[i]
			hook.Name = string(rune('a' + i))
			if bundle != nil {
				hook.ClientConfig.CABundle = bundle
			}
		}
		r := New(o)
		if got := r.Webhooks[0].CAExpires; got == nil || !got.Equal(now.Add(test.expires)) {
			t.Errorf("%s: expires %v, want %v", name, got, now.Add(test.expires))
		}
		switch {
		case test.problem == "" && len(r.Problems) > 0 || test.problem != "" && len(r.Problems) != 1:
			t.Errorf("%s: problems %+v", name, r.Problems)
		case test.problem != "" && (!strings.HasPrefix(r.Problems[0].Message, test.problem) || r.Healthy):
			t.Errorf("%s: %+v, want %s", name, r.Problems[0], test.problem)
		}
		if want := "webhooks: 2, CA expires " + now.Add(test.expires).Format("2006-01-02") + "\n"; !strings.Contains(printed(t, "table", r), want) {
			t.Errorf("%s: no %q in:\n%s", name, want, printed(t, "table", r))
		}
	}
}
