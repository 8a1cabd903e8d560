package redisclient

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestParseURL_ReadsEveryForm(t *testing.T) {
	in := func(o Options) Options {
		o.Username, o.Password = "user", "secret"
		return o
	}
	tests := map[string]struct {
		url  string
		tls  bool
		want Options
	}{
		"one server": {
			url: "redis://user:secret@a:1/2", want: in(Options{Mode: ModeStandalone, Addresses: []string{"a:1"}, Database: 2}),
		},
		"the default port": {
			url: "redis://user:secret@a", want: in(Options{Mode: ModeStandalone, Addresses: []string{"a:6379"}}),
		},
		"no user":                  {url: "redis://:secret@a", want: Options{Mode: ModeStandalone, Addresses: []string{"a:6379"}, Password: "secret"}},
		"no credentials":           {url: "redis://[::1]:7", want: Options{Mode: ModeStandalone, Addresses: []string{"[::1]:7"}}},
		"percent-encoded password": {url: "redis://:%23%2F%3A@a", want: Options{Mode: ModeStandalone, Addresses: []string{"a:6379"}, Password: "#/:"}},
		"TLS": {
			url: "rediss://user:secret@a:1", tls: true, want: in(Options{Mode: ModeStandalone, Addresses: []string{"a:1"}}),
		},
		"a cluster": {
			url:  "redis://user:secret@a:1?addr=b&addr=c:3",
			want: in(Options{Mode: ModeCluster, Addresses: []string{"a:1", "b:6379", "c:3"}}),
		},
		"a cluster with one known address": {
			url: "redis://user:secret@a:1?cluster=true", want: in(Options{Mode: ModeCluster, Addresses: []string{"a:1"}}),
		},
		"a cluster with its only known address twice": {
			url: "redis://user:secret@a:1?addr=a:1", want: in(Options{Mode: ModeCluster, Addresses: []string{"a:1"}}),
		},
		"Sentinels with TLS": {
			url: "rediss://user:secret@a/3?addr=b:2&master=weir&sentinel_username=s&sentinel_password=t", tls: true,
			want: in(Options{
				Mode: ModeSentinel, Addresses: []string{"a:26379", "b:2"}, MasterName: "weir", Database: 3,
				SentinelUsername: "s", SentinelPassword: "t",
			}),
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := ParseURL(test.url)
			if err != nil {
				t.Fatal(err)
			}
			if (got.TLS != nil) != test.tls {
				t.Errorf("TLS %v, want %v", got.TLS != nil, test.tls)
			}
			got.TLS = nil
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("options (-want +got):\n%s", diff)
			}
		})
	}
}

func TestNew_RejectsInvalidOptions(t *testing.T) {
	one := []string{"a:1"}
	tests := map[string]struct {
		options Options
		want    string
	}{
		"no mode":                          {Options{Addresses: one}, `mode "" must be`},
		"an unknown mode":                  {Options{Mode: "Ring", Addresses: one}, `mode "Ring" must be`},
		"no address":                       {Options{Mode: ModeStandalone}, "no address"},
		"two addresses of a server":        {Options{Mode: ModeStandalone, Addresses: []string{"a:1", "b:1"}}, "requires one address, got 2"},
		"a negative database":              {Options{Mode: ModeStandalone, Addresses: one, Database: -1}, "database -1"},
		"a database in a cluster":          {Options{Mode: ModeCluster, Addresses: one, Database: 1}, "has only database 0"},
		"Sentinel without a primary":       {Options{Mode: ModeSentinel, Addresses: one}, "requires the name"},
		"a name of a primary in a cluster": {Options{Mode: ModeCluster, Addresses: one, MasterName: "weir"}, "mode Cluster does not use"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			test.options.Timeout = time.Second
			client, err := New(test.options)
			if err == nil {
				_ = client.Close()
				t.Fatal("no error")
			}
			if !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want it to contain %q", err, test.want)
			}
		})
	}
}
