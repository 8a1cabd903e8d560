package main

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
		log, err := newLogger(&written, format, "info")
		if err != nil {
			t.Fatal(err)
		}
		log.Info("draining", "for", 5*time.Second, "listen", address, "requests", 2)
		if !strings.HasSuffix(written.String(), want) {
			t.Errorf("%s: %q, want the end %q", format, written.String(), want)
		}
	}
}
