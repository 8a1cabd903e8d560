package redisservers

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// startEnterprise starts a proxy that hides that a server is a node of a cluster, and returns its host:port. It replies as one server to HELLO, INFO
// and CLUSTER, and forwards everything else, so that calls with keys in several slots get CROSSSLOT.
func startEnterprise(t *testing.T, target string) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			running.Go(func() { hideCluster(t, client, target) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		running.Wait()
	})
	return listener.Addr().String()
}

// hideCluster serves one connection, one command at a time, until one side closes it.
func hideCluster(t *testing.T, client net.Conn, target string) {
	defer client.Close()
	server, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", target)
	if err != nil {
		return
	}
	defer server.Close()
	defer context.AfterFunc(t.Context(), func() {
		_ = client.Close()
		_ = server.Close()
	})()
	commands, replies := bufio.NewReader(client), bufio.NewReader(server)
	for {
		raw, words, err := readMessage(commands)
		if err != nil || len(words) == 0 { // no command of Redis: Weir finds out what the server is
			return
		}
		var reply string
		switch strings.ToUpper(words[0]) {
		case "HELLO":
			reply = "-ERR unknown command 'HELLO'\r\n"
		case "CLUSTER":
			reply = "-ERR This instance has cluster support disabled\r\n"
		case "INFO":
			text := "redis_version:7.4.0\r\nredis_mode:standalone\r\nrole:master\r\n"
			reply = fmt.Sprintf("$%d\r\n%s\r\n", len(text), text)
		case "SUBSCRIBE": // from here on, the server can send messages at any time
			if _, err := io.WriteString(server, raw); err != nil {
				return
			}
			go func() {
				_, _ = io.Copy(server, commands)
				_ = server.Close() // the client has closed its side
			}()
			_, _ = io.Copy(client, replies)
			return
		default:
			if _, err := io.WriteString(server, raw); err != nil {
				return
			}
			if reply, _, err = readMessage(replies); err != nil {
				return
			}
		}
		if _, err := io.WriteString(client, reply); err != nil {
			return
		}
	}
}

// readMessage reads a command or a reply of RESP2, and returns its bytes and the strings in it.
func readMessage(r *bufio.Reader) (raw string, words []string, err error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return "", nil, err
	}
	size, _ := strconv.Atoi(strings.TrimSpace(line[1:])) // of a line without a size it is not used
	switch line[0] {
	case '*':
		raw = line
		for range size {
			one, inside, err := readMessage(r)
			if err != nil {
				return "", nil, err
			}
			raw, words = raw+one, append(words, inside...)
		}
		return raw, words, nil
	case '$':
		if size < 0 {
			return line, nil, nil
		}
		text := make([]byte, size+2)
		if _, err := io.ReadFull(r, text); err != nil {
			return "", nil, err
		}
		return line + string(text), []string{string(text[:size])}, nil
	default: // a command or a reply of one line
		return line, strings.Fields(line), nil
	}
}
