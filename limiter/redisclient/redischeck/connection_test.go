package redischeck_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/weir-dev/weir/limiter/redisclient/redischeck"
	"github.com/weir-dev/weir/test/fixture"
)

func TestConnection_LogsEachStateOnce(t *testing.T) {
	log := &fixture.LockedBuffer{}
	server := fixture.Redis(t)
	server.Kill()
	began := time.Now()
	c := redischeck.Connect(t.Context(), open(t, server.URL()), names(), slog.New(slog.NewTextHandler(log, nil)))
	if took := time.Since(began); c.Usable() || took > 5*time.Second {
		t.Errorf("usable without Redis: %t, after %v", c.Usable(), took)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		c.Run(ctx)
	}()
	if err := server.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	fixture.Await(t, "the connection", func() bool { return strings.Contains(log.String(), "connected to Redis") })
	stop()
	<-ended
	if lines := strings.Count(log.String(), "\n"); lines != 2 || strings.Count(log.String(), "Redis is not available yet") != 1 {
		t.Errorf("the log has %d lines, want 2:\n%s", lines, log)
	}
}

func TestConnect_LogsOptionalCommandsAsAWarning(t *testing.T) {
	for command, want := range map[string]string{
		"SUBSCRIBE": `level=WARN msg="Redis rejects optional commands"`, "EVALSHA": `level=ERROR msg="Redis rejects commands that Weir needs"`,
	} {
		log := &fixture.LockedBuffer{}
		server := fixture.Redis(t, "--rename-command", command, "")
		redischeck.Connect(t.Context(), open(t, server.URL()), names(), slog.New(slog.NewTextHandler(log, nil)))
		if !strings.Contains(log.String(), want) {
			t.Errorf("without %s the log is\n%s", command, log)
		}
	}
}

func TestConnect_DoesNotWaitForARedisThatHangs(t *testing.T) {
	server := fixture.Redis(t)
	client := open(t, server.URL())
	if err := server.Pause(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = server.Resume() }()
	log := &fixture.LockedBuffer{}
	began := time.Now()
	redischeck.Connect(t.Context(), client, names(), slog.New(slog.NewTextHandler(log, nil)))
	if took := time.Since(began); took > 9*time.Second { // the timeout of the client is 10 s, and adds half of it
		t.Errorf("took %v", took)
	}
	if !strings.Contains(log.String(), "Redis is not available yet") {
		t.Errorf("log:\n%s", log)
	}
}
