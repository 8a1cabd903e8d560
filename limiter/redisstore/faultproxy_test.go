package redisstore_test

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// respFault is what a faultProxy does in place of the reply to a command.
type respFault struct {
	command string // in lower case: "evalsha"
	about   string // the arguments contain this text
	reply   string // sent in place of the reply of Redis, unless it is empty
	unsent  bool   // Redis does not get the command
	then    ending
}

// ending is what happens to the connection after the reply of a fault.
type ending int

const (
	goesOn ending = iota
	closes        // EOF
	resets        // RST
	hangs         // no byte follows
	halves        // half of the reply of Redis, then EOF
)

// faultProxy is a proxy to Redis that knows where a command and a reply end.
type faultProxy struct {
	listener net.Listener
	target   string
	fault    atomic.Pointer[respFault] // nil: no fault
	left     atomic.Int64              // commands that still get the fault
	scripts  atomic.Int64              // commands that run a script, and are no probe of a node or of a need

	mu    sync.Mutex
	conns []net.Conn
	wg    sync.WaitGroup
}

func startFaultProxy(t *testing.T, target string) *faultProxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &faultProxy{listener: listener, target: target}
	p.wg.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			p.wg.Go(func() { p.serve(client) })
		}
	})
	t.Cleanup(p.stop)
	return p
}

func (p *faultProxy) stop() {
	_ = p.listener.Close()
	p.mu.Lock()
	for _, conn := range p.conns {
		_ = conn.Close()
	}
	p.mu.Unlock()
	p.wg.Wait()
}

// inject begins a fault for the next n commands that it is about, and ends the one before. Open connections are closed if the fault is about a command
// of the handshake, so that it is sent.
func (p *faultProxy) inject(f *respFault, n int64) {
	p.left.Store(n)
	p.fault.Store(f)
	if f == nil || f.command == "hello" || f.command == "client" {
		p.mu.Lock()
		for _, conn := range p.conns {
			_ = conn.Close()
		}
		p.conns = nil
		p.mu.Unlock()
	}
}

func (p *faultProxy) serve(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", p.target)
	if err != nil {
		return
	}
	defer server.Close()
	p.mu.Lock()
	p.conns = append(p.conns, client, server)
	p.mu.Unlock()
	commands, replies := bufio.NewReader(client), bufio.NewReader(server)
	for {
		words, err := readCommand(commands)
		if err != nil {
			return
		}
		name := strings.ToLower(words[0])
		if all := strings.Join(words, " "); strings.HasPrefix(name, "eval") && !strings.Contains(all, ":unused") && !strings.Contains(all, ":probe:") {
			p.scripts.Add(1)
		}
		f := p.fault.Load()
		if f != nil && (f.command != name || !strings.Contains(strings.Join(words, " "), f.about) || p.left.Add(-1) < 0) {
			f = nil
		}
		var reply []byte
		if f == nil || !f.unsent {
			if _, err := io.WriteString(server, encoded(words)); err != nil {
				return
			}
			if reply, err = rawReply(replies); err != nil {
				return
			}
		}
		if f != nil {
			if f.reply != "" {
				reply = []byte(f.reply)
			}
			switch f.then {
			case goesOn:
			case closes, resets:
				if f.then == resets {
					if tcp, ok := client.(*net.TCPConn); ok {
						_ = tcp.SetLinger(0)
					}
				}
				return
			case hangs:
				_, _ = io.Copy(io.Discard, commands)
				return
			case halves:
				_, _ = client.Write(reply[:len(reply)/2])
				return
			}
		}
		if _, err := client.Write(reply); err != nil {
			return
		}
	}
}

func encoded(words []string) string {
	var b strings.Builder
	b.WriteString("*" + strconv.Itoa(len(words)) + "\r\n")
	for _, w := range words {
		b.WriteString("$" + strconv.Itoa(len(w)) + "\r\n" + w + "\r\n")
	}
	return b.String()
}

// rawReply reads one reply.
func rawReply(r *bufio.Reader) ([]byte, error) {
	line, err := r.ReadBytes('\n')
	if err != nil {
		return nil, err
	}
	n, _ := strconv.Atoi(string(bytes.TrimSpace(line[1:])))
	switch line[0] {
	case '$':
		if n < 0 {
			return line, nil
		}
		bulk := make([]byte, n+2)
		_, err := io.ReadFull(r, bulk)
		return append(line, bulk...), err
	case '*', '%':
		if line[0] == '%' {
			n *= 2
		}
		for range n {
			element, err := rawReply(r)
			if err != nil {
				return nil, err
			}
			line = append(line, element...)
		}
	}
	return line, nil
}
