package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weir-dev/weir/test/fixture"
)

func TestRedisOverTLSFromFiles(t *testing.T) {
	server, files := fixture.RedisTLS(t, true)
	ping := func(f redisTLSFlags) error {
		client, err := openRedis(server.URL(), f, limiterTimeout)
		if err != nil {
			return err
		}
		defer client.Close()
		return client.Ping(t.Context())
	}
	if err := ping(redisTLSFlags{files.CA, files.ClientCert, files.ClientKey}); err != nil {
		t.Error(err)
	}
	if err := ping(redisTLSFlags{ca: files.CA}); err == nil {
		t.Error("a Redis that wants a certificate did without")
	}
	if err := ping(redisTLSFlags{}); err == nil {
		t.Error("a Redis that no authority of the system vouches for was trusted")
	}
}

func TestACertificateIsReadAgainForEveryConnection(t *testing.T) {
	server, files := fixture.RedisTLS(t, true)
	client, err := openRedis(server.URL(), redisTLSFlags{files.CA, files.ClientCert, files.ClientKey}, limiterTimeout)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if err := os.Remove(files.ClientCert); err != nil {
		t.Fatal(err)
	}
	if err := client.Ping(t.Context()); err == nil {
		t.Error("a certificate that is gone was shown")
	}
}

func TestRedisFilesThatCannotBe(t *testing.T) {
	files, err := fixture.WriteTLSFiles(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	gone := filepath.Join(t.TempDir(), "gone.pem")
	tests := map[string]struct {
		url   string
		files redisTLSFlags
		says  string
	}{
		"without TLS":              {"redis://a", redisTLSFlags{ca: files.CA}, "begin the URL with rediss://"},
		"a certificate alone":      {"rediss://a", redisTLSFlags{cert: files.ClientCert}, "go together"},
		"a key alone":              {"rediss://a", redisTLSFlags{key: files.ClientKey}, "go together"},
		"no such authority":        {"rediss://a", redisTLSFlags{ca: gone}, "--redis-ca: open " + gone},
		"no authority in the file": {"rediss://a", redisTLSFlags{ca: files.ClientKey}, "holds no certificate"},
		"no such certificate":      {"rediss://a", redisTLSFlags{cert: gone, key: files.ClientKey}, "--redis-cert, --redis-key: open " + gone},
		"the key of another":       {"rediss://a", redisTLSFlags{cert: files.ClientCert, key: files.ServerKey}, "does not match"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := openRedis(test.url, test.files, limiterTimeout)
			if err == nil || !strings.Contains(err.Error(), test.says) {
				t.Errorf("error %v, want one that says %q", err, test.says)
			}
		})
	}
}
