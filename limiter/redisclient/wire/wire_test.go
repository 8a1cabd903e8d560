package wire_test

import (
	"crypto/tls"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/weir-dev/weir/limiter/redisclient/wire"
	"github.com/weir-dev/weir/test/fixture"
)

// reply serves a listener that sends a text to each connection and closes it.
func reply(t *testing.T, text string) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Write([]byte(text))
			_ = conn.Close()
		}
	}()
	return listener.Addr().String()
}

func web(t *testing.T, config *tls.Config) string {
	t.Helper()
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	server.TLS = config
	if config == nil {
		server.Start()
	} else {
		server.StartTLS()
	}
	t.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

func TestIdentify_RecognizesServers(t *testing.T) {
	encrypted, _ := fixture.RedisTLS(t, false)
	mutual, _ := fixture.RedisTLS(t, true)
	for name, test := range map[string]struct {
		address string
		want    wire.Server
	}{
		"Redis":                              {fixture.Redis(t).Addr(), wire.Redis},
		"Redis with a password":              {fixture.Redis(t, "--requirepass", "x").Addr(), wire.Redis},
		"Redis with TLS":                     {encrypted.Addr(), wire.RedisTLS},
		"Redis that requires a certificate":  {mutual.Addr(), wire.TLS},
		"HTTP":                               {web(t, nil), wire.HTTP},
		"HTTPS":                              {web(t, &tls.Config{}), wire.HTTPS},
		"HTTPS that requires a certificate":  {web(t, &tls.Config{ClientAuth: tls.RequireAnyClientCert}), wire.TLS},
		"HTTP without a header":              {reply(t, "<!DOCTYPE HTML>\n"), wire.HTTP},
		"SSH":                                {reply(t, "SSH-2.0-OpenSSH_9.2\r\n"), wire.Unknown},
		"a server that closes":               {reply(t, ""), wire.Unknown},
		"a mail server, whose reply has +OK": {reply(t, "+ok ready\r\n"), wire.Unknown},
		"no server":                          {"127.0.0.1:1", wire.Unknown},
	} {
		if got := wire.Identify(t.Context(), test.address, "", 5*time.Second); got != test.want {
			t.Errorf("%s: %d, want %d", name, got, test.want)
		}
	}
}

func TestIdentify_EndsInTime(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0") // accepts nothing
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	began := time.Now()
	if got := wire.Identify(t.Context(), listener.Addr().String(), "", 100*time.Millisecond); got != wire.Unknown {
		t.Errorf("%d, want that it is unknown", got)
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("took %v", took)
	}
}
