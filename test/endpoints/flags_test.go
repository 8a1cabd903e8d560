package endpoints_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weir-dev/weir/test/fixture"
)

// exitUsage is the exit status for an invalid command line.
const exitUsage = 2

// rejectsInvalidFlags checks that a process with invalid flags does not start.
func rejectsInvalidFlags(t *testing.T, weir string) {
	files, err := fixture.WriteTLSFiles(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	empty := filepath.Join(t.TempDir(), "empty.pem")
	if err := os.WriteFile(empty, []byte("no certificate\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cert, key, clientCA := "--grpc-cert="+files.ServerCert, "--grpc-key="+files.ServerKey, "--grpc-client-ca="+files.CA
	tests := map[string]struct {
		flags []string
		want  []string // parts of the message
	}{
		"a network with bits after its prefix": {[]string{"--trusted-proxies=10.0.0.1/8"}, []string{"--trusted-proxies", "10.0.0.1/8", "10.0.0.0/8"}},
		"an invalid network among others":      {[]string{"--trusted-proxies=10.0.0.0/8,proxy.example"}, []string{"--trusted-proxies", "proxy.example"}},
		"a prefix that is too long":            {[]string{"--trusted-proxies=10.0.0.0/33"}, []string{"--trusted-proxies", "10.0.0.0/33"}},
		"all addresses as proxies":             {[]string{"--trusted-proxies=0.0.0.0/0"}, []string{"--trusted-proxies", "all addresses"}},
		"an IPv4 network written as IPv6":      {[]string{"--trusted-proxies=::ffff:10.0.0.0/104"}, []string{"--trusted-proxies", "IPv4"}},
		"a load balancer by name":              {[]string{"--proxy-protocol-from=balancer"}, []string{"--proxy-protocol-from", "balancer"}},
		"an unknown style":                     {[]string{"--response-headers=Fancy"}, []string{"--response-headers", "Fancy", "GitHub"}},
		"a style in lower case":                {[]string{"--response-headers=github"}, []string{"--response-headers", "github", "GitHub"}},
		"an unsupported client address header": {[]string{"--client-address-header=X-Real-IP"}, []string{"--client-address-header", "X-Real-IP", "Forwarded"}},
		"a negative drain":                     {[]string{"--drain=-1s"}, []string{"--drain", "-1s"}},
		"a certificate without its key":        {[]string{cert}, []string{"--grpc-cert", "--grpc-key"}},
		"a key without its certificate":        {[]string{key}, []string{"--grpc-cert", "--grpc-key"}},
		"a client CA without a certificate":    {[]string{clientCA}, []string{"--grpc-client-ca", "--grpc-cert"}},
		"a missing certificate file":           {[]string{"--grpc-cert=/nowhere.pem", key}, []string{"--grpc-cert", "/nowhere.pem"}},
		"a key of another certificate":         {[]string{cert, "--grpc-key=" + files.ClientKey}, []string{"--grpc-cert", "--grpc-key"}},
		"a file without a CA":                  {[]string{cert, key, "--grpc-client-ca=" + empty}, []string{"--grpc-client-ca", empty}},
		"a missing CA file":                    {[]string{cert, key, "--grpc-client-ca=/nowhere.pem"}, []string{"--grpc-client-ca", "/nowhere.pem"}},
		"an invalid claims header":             {[]string{"--claims-header=X JWT"}, []string{"--claims-header", "X JWT"}},
		"a certificate without --grpc-listen":  {[]string{cert, key, "--grpc-listen="}, []string{"--grpc-listen", "--grpc-cert"}},
		"an unknown flag":                      {[]string{"--trusted-proxy=10.0.0.0/8"}, []string{"--trusted-proxy"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			line := append([]string{
				"serve", "--policies", "testdata/policies", "--listen", "127.0.0.1:0", "--grpc-listen", "127.0.0.1:0", "--ops-listen", "127.0.0.1:0",
			}, test.flags...)
			ctx, cancel := context.WithTimeout(t.Context(), patience) // ends the process if it serves
			defer cancel()
			command := exec.CommandContext(ctx, weir, line...)
			var stderr bytes.Buffer
			command.Stderr = &stderr
			err := command.Run()
			exit, is := errors.AsType[*exec.ExitError](err)
			if !is || exit.ExitCode() != exitUsage {
				t.Errorf("the process ends with %v, want exit status %d:\n%s", err, exitUsage, &stderr)
			}
			for _, words := range test.want {
				if !strings.Contains(stderr.String(), words) {
					t.Errorf("the message does not contain %q:\n%s", words, &stderr)
				}
			}
		})
	}
}
