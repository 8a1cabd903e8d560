package redisclient_test

import (
	"bufio"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/weir-dev/weir/limiter/redisclient"
	"github.com/weir-dev/weir/test/fixture"
)

// reset makes the next Close reset the connection.
func reset(conn net.Conn) {
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
}

// accept serves each connection to the returned address, and then closes it.
func accept(t *testing.T, serve func(net.Conn)) (address string) {
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
			serve(conn)
			_ = conn.Close()
		}
	}()
	return listener.Addr().String()
}

// Redis replies to a connection that it refuses, whatever the client sends, and closes it. A client that writes meanwhile gets a broken pipe.
func TestClient_ReportsWhyAConnectionIsRefused(t *testing.T) {
	server := fixture.Redis(t, "--maxclients", "1")
	idle, err := net.Dial("tcp", server.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = idle.Close() })
	if _, err := io.WriteString(idle, "PING\r\n"); err != nil {
		t.Fatal(err)
	}
	if reply, err := bufio.NewReader(idle).ReadString('\n'); err != nil || reply != "+PONG\r\n" {
		t.Fatalf("%q, %v", reply, err)
	}
	client := open(t, server.URL())
	script := redisclient.NewScript("one", "return 1")
	for range 50 { // whether a Write fails depends on when the server closes the connection
		wantKind(t, client.Run(t.Context(), script, []string{"key"}).Err(), "clients")
	}
}

func TestClient_ReportsAConnectionThatIsClosedDuringTheHandshake(t *testing.T) {
	read := func(conn net.Conn) { _, _ = conn.Read(make([]byte, 1024)) }
	for name, test := range map[string]struct {
		serve      func(net.Conn)
		kind, text string
	}{
		"without a reply": {read, "disconnected", "closed the connection during the handshake"},
		"before anything is read": {
			func(conn net.Conn) { time.Sleep(5 * time.Millisecond); reset(conn) },
			"disconnected", "closed the connection during the handshake",
		},
		"in protected mode": {
			func(conn net.Conn) {
				_, _ = io.WriteString(conn, "-DENIED Redis is running in protected mode\r\n")
				read(conn)
			},
			"denied", "refused the connection: DENIED Redis is running in protected mode",
		},
		"with another reason": {
			func(conn net.Conn) { _, _ = io.WriteString(conn, "-ERR maintenance\r\n"); read(conn) },
			"disconnected", "refused the connection: ERR maintenance",
		},
		"after half a reply": {
			func(conn net.Conn) { _, _ = io.WriteString(conn, "-ERR max number of cl"); read(conn) },
			"disconnected", "closed the connection during the handshake",
		},
	} {
		t.Run(name, func(t *testing.T) {
			client := open(t, "redis://"+accept(t, test.serve))
			err := client.Run(t.Context(), redisclient.NewScript("one", "return 1"), []string{"key"}).Err()
			wantKind(t, err, test.kind)
			if err == nil || !strings.Contains(err.Error(), test.text) {
				t.Errorf("%v, want an error that contains %q", err, test.text)
			}
		})
	}
}

// A connection that breaks after another reply may have lost a reply: what the server replied to an earlier command is no reason.
func TestClient_DoesNotTakeAnEarlierReplyForTheReason(t *testing.T) {
	client := open(t, "redis://"+accept(t, func(conn net.Conn) {
		r := bufio.NewReader(conn)
		for range 3 { // commands, of which the last one breaks the connection
			if _, err := r.ReadString('\n'); err != nil {
				return
			}
			if _, err := io.WriteString(conn, "-NOSCRIPT No matching script\r\n-NOSCRIPT No matching script\r\n"); err != nil {
				return
			}
		}
	}))
	err := client.Run(t.Context(), redisclient.NewScript("one", "return 1"), []string{"key"}).Err()
	if err == nil || strings.Contains(err.Error(), "refused the connection") {
		t.Errorf("%v, want an error without the reply to another command", err)
	}
}
