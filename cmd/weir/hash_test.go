package main

import (
	"bytes"
	"context"
	"strings"
	"testing"
)

// The hash that weir hash prints selects the tier, without the API key in the policy.
func TestHash_PrintsWhatATierAccepts(t *testing.T) {
	const key = "0123456789abcdef0123456789abcdef"
	hashKey := writeHashKey(t, key)
	root := rootCommand()
	root.SetIn(strings.NewReader("partner-key-1\r\n\nother-key\n"))
	root.SetArgs([]string{"hash", "--hash-key", hashKey})
	var out bytes.Buffer
	root.SetOut(&out)
	if err := root.Execute(); err != nil {
		t.Fatal(err)
	}
	hashes := strings.Fields(out.String())
	if len(hashes) != 2 || hashes[0] == hashes[1] || !strings.HasPrefix(hashes[0], "hash:") {
		t.Fatalf("%q", out.String())
	}
	dir := t.TempDir()
	save(t, dir+"/keys.yaml", strings.Replace(keysPolicy, "partner-key-1", `"`+hashes[0]+`"`, 1))
	counters := countersOf("weir:")
	counters.hashKey = hashKey
	var stdout, log Transcript
	launch(t, func(ctx context.Context) error {
		return runServe(ctx, serveFlags{policies: dir, counters: counters, sockets: anyPort}, &stdout, log.Logger())
	})
	base := find(t, &stdout, `(http://127\.0\.0\.1:\d+)/v1/check`)
	for body, want := range map[string]int{partner: 5, anyKey: 3} {
		if got := allowed(t, body, base); got != want {
			t.Errorf("%s: %d requests pass, want %d", body, got, want)
		}
	}
}

func TestHash_RequiresTheKeyAndNoArguments(t *testing.T) {
	for want, args := range map[string][]string{
		"missing flag --hash-key":       {"hash"},
		`unexpected argument "s3cret"`:  {"hash", "s3cret"},
		"no such file":                  {"hash", "--hash-key", "/missing"},
		"from 32 to 4096 bytes, got 5:": {"hash", "--hash-key", writeHashKey(t, "short")},
	} {
		var stderr bytes.Buffer
		if status := run(args, &bytes.Buffer{}, &stderr); status != 2 || !strings.Contains(stderr.String(), want) {
			t.Errorf("%v: status %d, %q, want %q", args, status, stderr.String(), want)
		}
	}
}
