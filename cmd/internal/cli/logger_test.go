package cli

import (
	"bytes"
	"net"
	"strings"
	"testing"
	"time"
)

func TestLogger_FormatsDurationsAndAddressesAsText(t *testing.T) {
	address := &net.TCPAddr{IP: net.IPv6unspecified, Port: 8080}
	for format, want := range map[string]string{
		"text": "level=INFO msg=draining for=5s listen=[::]:8080 requests=2\n",
		"json": `"level":"INFO","msg":"draining","for":"5s","listen":"[::]:8080","requests":2}` + "\n",
	} {
		var written bytes.Buffer
		log, err := NewLogger(&written, format, "info")
		if err != nil {
			t.Fatal(err)
		}
		log.Info("draining", "for", 5*time.Second, "listen", address, "requests", 2)
		if !strings.HasSuffix(written.String(), want) {
			t.Errorf("%s: %q, want the end %q", format, written.String(), want)
		}
	}
}

func TestLogger_WritesOneLinePerMessage(t *testing.T) {
	for format, want := range map[string]string{"text": "level=WARN msg=hello", "json": `"level":"WARN","msg":"hello"}`} {
		var out bytes.Buffer
		log, err := NewLogger(&out, format, "warn")
		if err != nil {
			t.Fatal(err)
		}
		log.Info("too quiet")
		log.Warn("hello")
		if lines := strings.Count(out.String(), "\n"); lines != 1 || !strings.Contains(out.String(), want) {
			t.Errorf("%s: %q", format, &out)
		}
	}
}
