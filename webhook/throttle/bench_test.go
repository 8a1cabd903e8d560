package throttle

import (
	"bytes"
	"crypto/tls"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/weir-dev/weir/limiter/memstore"
	"github.com/weir-dev/weir/test/fixture"
)

// replay is a body that is read repeatedly.
type replay struct{ bytes.Reader }

func (*replay) Close() error { return nil }

// discardWriter is a ResponseWriter that discards the body.
type discardWriter struct {
	header http.Header
	status int
}

func (w *discardWriter) Header() http.Header         { return w.header }
func (w *discardWriter) Write(p []byte) (int, error) { return len(p), nil }
func (w *discardWriter) WriteHeader(status int)      { w.status = status }

func withObjectSize(n int) func(*admissionv1.AdmissionRequest) {
	return func(in *admissionv1.AdmissionRequest) {
		in.Object = runtime.RawExtension{Raw: []byte(`{"data":{"a":"` + strings.Repeat("x", n) + `"}}`)}
	}
}

// BenchmarkHandler decides about a write of a tenant that is far from its limit, without a network.
func BenchmarkHandler(b *testing.B) {
	for name, body := range map[string][]byte{
		"1kB":    reviewBody(b, "create"),
		"10kB":   reviewBody(b, "create", withObjectSize(9<<10)),
		"1500kB": reviewBody(b, "create", withObjectSize(1500<<10)),
	} {
		b.Run(name, func(b *testing.B) {
			handler := newTestHandler(b, newEngine(b, memstore.New(time.Now), limit("configmaps", 1_000_000, hour)))
			in, w := &replay{}, &discardWriter{header: http.Header{}}
			r := httptest.NewRequest(http.MethodPost, Path+"?timeout=2s", in)
			r.ContentLength = int64(len(body))
			b.ReportAllocs()
			for b.Loop() {
				in.Reset(body)
				r.Body = in
				if handler.ServeHTTP(w, r); w.status >= http.StatusBadRequest {
					b.Fatal(w.status)
				}
			}
		})
	}
}

// BenchmarkTLS sends reviews over one TLS connection: with HTTP/1.1, as API servers do, and with HTTP/2.
func BenchmarkTLS(b *testing.B) {
	files := newFiles(b)
	body := reviewBody(b, "create")
	for name, http2 := range map[string]bool{"HTTP1": false, "HTTP2": true} {
		b.Run(name, func(b *testing.B) {
			handler := newTestHandler(b, newEngine(b, memstore.New(time.Now), limit("configmaps", 1_000_000, hour)))
			url := "https://" + serveTLS(b, handler, files, 0).address + Path + "?timeout=2s"
			client := tlsClient(b, files, http2)
			b.ReportAllocs()
			for b.Loop() {
				response, err := client.Post(url, "application/json", bytes.NewReader(body))
				if err != nil || response.StatusCode != http.StatusOK {
					b.Fatal(response, err)
				}
				if _, err := io.Copy(io.Discard, response.Body); err != nil {
					b.Fatal(err)
				}
				_ = response.Body.Close()
			}
		})
	}
}

// tlsClient returns a client that trusts the CA of files, and uses HTTP/2 or HTTP/1.1.
func tlsClient(t testing.TB, files *fixture.TLSFiles, http2 bool) *http.Client {
	t.Helper()
	config, err := files.ClientConfig()
	if err != nil {
		t.Fatal(err)
	}
	return tlsClientWith(t, config, http2)
}

func tlsClientWith(t testing.TB, config *tls.Config, http2 bool) *http.Client {
	t.Helper()
	protocols := new(http.Protocols)
	protocols.SetHTTP1(!http2)
	protocols.SetHTTP2(http2)
	transport := &http.Transport{TLSClientConfig: config, Protocols: protocols}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: patience}
}
