package redisclient

import (
	"errors"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"
)

// refusingConn is a connection that its server has closed after a reply.
type refusingConn struct {
	net.Conn

	reply string
}

func (*refusingConn) Write([]byte) (int, error) {
	return 0, &net.OpError{Op: "write", Err: syscall.EPIPE}
}
func (*refusingConn) SetReadDeadline(time.Time) error { return nil }
func (c *refusingConn) Read(b []byte) (int, error) {
	if c.reply == "" {
		return 0, io.EOF
	}
	n := copy(b, c.reply)
	c.reply = c.reply[n:]
	return n, nil
}

// The server closes the connection before the client has sent anything. The reply waits to be read.
func TestLateConn_ReadsTheReasonBeforeItReportsAFailedWrite(t *testing.T) {
	for reply, want := range map[string]string{
		"-ERR max number of clients reached\r\n": KindClients, "-ERR another reason\r\n": KindDisconnected, "": KindDisconnected, "+OK\r\n": KindDisconnected,
	} {
		_, err := newLateConn(&refusingConn{reply: reply}, time.Minute).Write([]byte("PING"))
		if got := kindOf(errors.Unwrap(err)); got != want || !errors.Is(err, syscall.EPIPE) {
			t.Errorf("%q: kind %q of %v, want %q", reply, got, err, want)
		}
		if text := strings.TrimSpace(strings.TrimPrefix(reply, "-")); strings.HasPrefix(reply, "-") && !strings.Contains(err.Error(), text) {
			t.Errorf("%q: %v, want the reply in it", reply, err)
		}
	}
}

// After another reply, the connection was not refused: a command that was sent may have run.
func TestLateConn_DoesNotTakeALaterErrorForARefusal(t *testing.T) {
	inner := &refusingConn{reply: "+OK\r\n"}
	conn := newLateConn(inner, time.Minute)
	if _, err := conn.Read(make([]byte, 100)); err != nil {
		t.Fatal(err)
	}
	inner.reply = "-ERR max number of clients reached\r\n"
	if _, err := conn.Write([]byte("PING")); kindOf(err) != KindDisconnected {
		t.Errorf("kind %q of %v, want disconnected", kindOf(err), err)
	}
}
