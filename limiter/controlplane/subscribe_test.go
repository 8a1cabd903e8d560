package controlplane

import (
	"context"
	"testing"
	"time"

	"github.com/weir-dev/weir/limiter/redisclient"
	"github.com/weir-dev/weir/test/fixture"
)

func TestSubscribe_ReceivesPublishedRevisions(t *testing.T) {
	onRedis(t, subscribes)
}

func subscribes(t *testing.T, client *redisclient.Client) {
	ctx, cancel := context.WithCancel(t.Context())
	updates := exchange(client).Subscribe(ctx)
	await(t, updates, "")
	publish(t, exchange(client), "sha256:a", "A")
	await(t, updates, "sha256:a")
	publish(t, exchange(client), "sha256:b", "B")
	publish(t, exchange(client), "sha256:c", "C")
	await(t, updates, "sha256:c")
	cancel()
	for range updates { // ends when the channel is closed
	}
}

func TestSubscribe_ReconnectsAfterARestart(t *testing.T) {
	server := fixture.Redis(t)
	client := open(t, server.URL())
	updates := exchange(client).Subscribe(t.Context())
	await(t, updates, "")
	if err := server.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	await(t, updates, "")
	publish(t, exchange(client), "sha256:a", "A")
	await(t, updates, "sha256:a")
}

func TestSubscribe_EndsWhenTheClientIsClosed(t *testing.T) {
	client, err := redisclient.Open(fixture.Redis(t).URL(), 5*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	updates := exchange(client).Subscribe(t.Context())
	await(t, updates, "")
	if err := client.Close(); err != nil {
		t.Fatal(err)
	}
	deadline := time.After(patience)
	for n := 0; ; n++ {
		select {
		case _, open := <-updates:
			if !open {
				return
			}
			if n > 100 {
				t.Fatal("received more than 100 values after Close")
			}
		case <-deadline:
			t.Fatalf("the channel is not closed %v after Close", patience)
		}
	}
}

// await receives until want, and ignores other values.
func await(t *testing.T, updates <-chan string, want string) {
	t.Helper()
	deadline := time.After(patience)
	for {
		select {
		case got, open := <-updates:
			if !open {
				t.Fatalf("the channel was closed before it delivered %q", want)
			}
			if got == want {
				return
			}
		case <-deadline:
			t.Fatalf("the channel did not deliver %q within %v", want, patience)
		}
	}
}
