package main

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/weir-dev/weir/test/fixture"
)

func TestBypass_LetsAnIdentifierPassInEachProcess(t *testing.T) {
	redis, err := fixture.StartRedis(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = redis.Stop() })
	bases, admins, logs := sharing(t, redis)
	fixture.Await(t, "the second process knows the denial", func() bool {
		check(t, bases[0], acme)
		return check(t, bases[1], acme).Source == "cache"
	})
	create := []string{"bypass", "shop/tenant", "--identifier", "acme", "--reason", "INC-1", "--admin", admins[0]}
	status, name, stderr := runWithInput(t, "", append(create, "-o", "name")...)
	name = strings.TrimSpace(name)
	if status != 0 || !strings.HasPrefix(name, "bypass-") {
		t.Fatalf("status %d: %s%s", status, name, stderr)
	}
	if v := check(t, bases[0], acme); v.status != http.StatusOK {
		t.Errorf("the process that was called: %+v", v)
	}
	began := time.Now()
	fixture.Await(t, "the other process allows", func() bool { return check(t, bases[1], acme).status == http.StatusOK })
	t.Logf("the other process allowed after %v", time.Since(began))
	find(t, logs[0], `(bypass created" bypass=`+name+` policy=shop/tenant identifier=acme .* caller="uid \d+, pid \d+" reason=INC-1)`)

	status, stdout, stderr := runWithInput(t, "", "bypass", "list", "--admin", admins[1])
	if status != 0 || !strings.Contains(stdout, "NAME") || !strings.Contains(stdout, name+"  shop/tenant  acme        ") || !strings.Contains(stdout, "s left  1/1") {
		t.Errorf("status %d: %s%s", status, stdout, stderr)
	}
	_, stdout, _ = runWithInput(t, "", "explain", "--domain", "shop", "--header", "x-tenant-id: acme", "--admin", admins[1])
	if !strings.Contains(stdout, "Bypassed") || !strings.Contains(stdout, "bypass "+name+" of") {
		t.Errorf("explain: %s", stdout)
	}
	status, stdout, stderr = runWithInput(t, "", "bypass", "end", name, "--admin", admins[1])
	if status != 0 || !strings.Contains(stdout, "ended by") {
		t.Errorf("status %d: %s%s", status, stdout, stderr)
	}
	for i, base := range bases {
		fixture.Await(t, "the bypass has ended", func() bool { return check(t, base, acme).status == http.StatusTooManyRequests })
		_, stdout, _ := runWithInput(t, "", "bypass", "list", "--admin", admins[i], "-o", "json")
		if !strings.Contains(stdout, `"endedBy": "uid `) {
			t.Errorf("list: %s", stdout)
		}
	}
}

func TestBypass_WorksDuringAnOutage(t *testing.T) {
	redis, err := fixture.StartRedis(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = redis.Stop() })
	bases, admins, logs := sharing(t, redis)
	spend(t, bases[0])
	if err := redis.Pause(); err != nil {
		t.Fatal(err)
	}
	fixture.Await(t, "local mode", func() bool {
		check(t, bases[0], acmePeek)
		return strings.Contains(logs[0].String(), "Redis unavailable")
	})
	if v := check(t, bases[0], acme); v.status != http.StatusTooManyRequests {
		t.Errorf("during the outage: %+v", v)
	}
	if status, _, stderr := runWithInput(t, "", "bypass", "shop/tenant", "--all", "--for", "1h", "--reason", "INC-2", "--admin", admins[0]); status != 0 {
		t.Fatalf("status %d: %s", status, stderr)
	}
	if v := check(t, bases[0], acme); v.status != http.StatusOK {
		t.Errorf("with a bypass: %+v", v)
	}
	if err := redis.Resume(); err != nil {
		t.Fatal(err)
	}
	fixture.Await(t, "the other process has the bypass", func() bool {
		_, stdout, _ := runWithInput(t, "", "bypass", "list", "--admin", admins[1])
		return strings.Contains(stdout, "(all)")
	})
}

func TestBypass_RejectsInvalidArguments(t *testing.T) {
	for want, args := range map[string][]string{
		`policy "daily" is invalid: must be namespace/name`: {"daily", "--identifier", "a", "--reason", "x"},
		`did you mean list?`:                               {"lst"},
		`unexpected argument "acme"`:                       {"shop/a", "acme"},
		`set --identifier, or --all`:                       {"shop/a", "--reason", "x"},
		`set --identifier, or --all for`:                   {"shop/a", "--identifier", "a", "--all", "--reason", "x"},
		`--for 24h0m1s is invalid: must be from 1s to 24h`: {"shop/a", "--identifier", "a", "--for", "86401s", "--reason", "x"},
		`--for 0s is invalid: must be from`:                {"shop/a", "--identifier", "a", "--for", "0s", "--reason", "x"},
		`--for 1.5s is invalid: must be whole seconds`:     {"shop/a", "--identifier", "a", "--for", "1.5s", "--reason", "x"},
		`--reason is required`:                             {"shop/a", "--identifier", "a"},
		`--output "xml" is invalid`:                        {"shop/a", "--identifier", "a", "--reason", "x", "-o", "xml"},
		`name one bypass, as in bypass list`:               {"end"},
	} {
		if status, stdout, stderr := runWithInput(t, "", append([]string{"bypass"}, args...)...); status != 2 || !strings.Contains(stderr, want) {
			t.Errorf("%q: status %d: %s%s, want %q", args, status, stdout, stderr, want)
		}
	}
}

// Also while Redis is unavailable.
func TestBlock_DeniesAnIdentifierInEachProcess(t *testing.T) {
	redis, err := fixture.StartRedis(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = redis.Stop() })
	bases, admins, logs := sharing(t, redis)
	if v := check(t, bases[1], acme); v.status != http.StatusOK {
		t.Fatalf("before the block: %+v", v)
	}
	status, name, stderr := runWithInput(t, "", "block", "shop/tenant", "--identifier", "acme", "--for", "1h", "--reason", "INC-1", "--admin", admins[0], "-o", "name")
	name = strings.TrimSpace(name)
	if status != 0 || !strings.HasPrefix(name, "block-") {
		t.Fatalf("status %d: %s%s", status, name, stderr)
	}
	find(t, logs[0], `(block created" bypass=`+name+` policy=shop/tenant identifier=acme )`)
	for i, base := range bases {
		fixture.Await(t, "the process denies", func() bool {
			v := check(t, base, acme)
			return v.status == http.StatusTooManyRequests && v.Source == "none"
		})
		if _, stdout, _ := runWithInput(t, "", "block", "list", "--admin", admins[i]); !strings.Contains(stdout, name+"  shop/tenant  acme        ") {
			t.Errorf("blocks: %s", stdout)
		}
		if _, _, stderr := runWithInput(t, "", "bypass", "list", "--admin", admins[i]); !strings.Contains(stderr, "no bypasses") {
			t.Errorf("bypasses: %s", stderr)
		}
	}
	_, stdout, _ := runWithInput(t, "", "explain", "--domain", "shop", "--header", "x-tenant-id: acme", "--admin", admins[1])
	if !strings.Contains(stdout, "Denies") || !strings.Contains(stdout, "block "+name+" of") {
		t.Errorf("explain: %s", stdout)
	}
	if err := redis.Stop(); err != nil {
		t.Fatal(err)
	}
	for _, base := range bases {
		if v := check(t, base, acme); v.status != http.StatusTooManyRequests || v.Source != "none" {
			t.Errorf("during the outage: %+v", v)
		}
	}
	if status, stdout, stderr := runWithInput(t, "", "block", "end", name, "--admin", admins[0]); status != 0 || !strings.Contains(stdout, "ended by") {
		t.Errorf("status %d: %s%s", status, stdout, stderr)
	}
}
