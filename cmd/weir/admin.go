package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/pflag"

	"github.com/weir-dev/weir/cmd/internal/cli"
	"github.com/weir-dev/weir/cmd/internal/cli/ask"
	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/admin"
	"github.com/weir-dev/weir/limiter/exempt"
	"github.com/weir-dev/weir/limiter/socket"
	"github.com/weir-dev/weir/webhook/throttle"
)

// adminFlags configure the admin endpoint.
type adminFlags struct {
	listen    string
	tokenFile string
}

func (f *adminFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.listen, "admin-listen", "",
		"address of the admin endpoint: unix:PATH for a socket that only the user of this process can open, or a loopback address\n"+
			"with --admin-token-file; empty disables it")
	flags.StringVar(&f.tokenFile, "admin-token-file", "",
		"file with the token that callers of the admin endpoint must send, at least 32 bytes; read for each request; required on a loopback address")
}

// validate returns an error if anyone could use the endpoint.
func (f *adminFlags) validate() error {
	path, isUnix := strings.CutPrefix(f.listen, ask.UnixPrefix)
	switch {
	case f.listen == "" && f.tokenFile == "":
		return nil
	case f.listen == "":
		return errors.New("--admin-token-file requires --admin-listen, which is empty")
	case isUnix && path == "":
		return fmt.Errorf("--admin-listen %q is invalid: must be unix: and a path", f.listen)
	case isUnix && f.tokenFile != "":
		return errors.New("--admin-token-file is not used with a Unix socket: remove one of them")
	case isUnix:
		return nil
	}
	address, err := netip.ParseAddrPort(f.listen)
	if err != nil || !address.Addr().IsLoopback() {
		return fmt.Errorf("--admin-listen %q is invalid: must be unix:PATH, or a loopback address and a port, for example 127.0.0.1:9091", f.listen)
	}
	if f.tokenFile == "" {
		return errors.New("--admin-listen on a loopback address requires --admin-token-file: every user of this machine can connect to it")
	}
	if _, err := admin.ReadToken(f.tokenFile); err != nil {
		return fmt.Errorf("--admin-token-file: %w", err)
	}
	return nil
}

// open opens the listener, or returns nil if the endpoint is disabled.
func (f *adminFlags) open(ctx context.Context) (net.Listener, error) {
	if f.listen == "" {
		return nil, nil //nolint:nilnil // the flags disable the endpoint
	}
	path, isUnix := strings.CutPrefix(f.listen, ask.UnixPrefix)
	network, address := "tcp", f.listen
	config := net.ListenConfig{}
	if isUnix {
		network, address = "unix", path
		if err := removeStale(ctx, path); err != nil {
			return nil, err
		}
		config.Control = func(_, _ string, c syscall.RawConn) (err error) { // before bind: the socket never has another mode
			return errors.Join(c.Control(func(fd uintptr) { err = syscall.Fchmod(int(fd), 0o600) }), err)
		}
	}
	listener, err := config.Listen(ctx, network, address)
	if err != nil {
		return nil, fmt.Errorf("%w; set another address with --admin-listen", err)
	}
	if isUnix {
		if err := os.Chmod(path, 0o600); err != nil { // some systems ignore the mode of the descriptor
			return nil, errors.Join(err, listener.Close())
		}
	}
	return listener, nil
}

// removeStale removes a socket that a process left behind. It keeps a socket on which a process listens, and other files.
func removeStale(ctx context.Context, path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("--admin-listen: %w", err)
	}
	if info.Mode()&fs.ModeSocket == 0 {
		return fmt.Errorf("--admin-listen: %s exists and is not a socket", path)
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", path)
	if err == nil {
		_ = conn.Close()
		return fmt.Errorf("--admin-listen: another process listens on %s", path)
	}
	return os.Remove(path)
}

// handler returns the handler of the admin endpoint of p.
func (f *adminFlags) handler(p *process, counts *counters, exempted exempt.Lists) (http.Handler, error) {
	handler, err := adminHandler(p, counts, exempted)
	if err == nil && f.tokenFile != "" {
		handler = admin.WithToken(f.tokenFile, handler)
	}
	return handler, err
}

// adminHandler returns the handler of the admin endpoint of p for authenticated callers.
func adminHandler(p *process, counts *counters, exempted exempt.Lists) (http.Handler, error) {
	settings, err := throttle.NewSettings(throttle.Options{Exempt: exempted})
	if err != nil {
		return nil, err
	}
	var portion func(limiter.Charge) admin.Portion
	if counts.local != nil {
		portion = func(c limiter.Charge) admin.Portion { return admin.Portion(counts.local.Portion(c)) }
	}
	return admin.Authenticated(admin.NewHandler(admin.Options{
		Explainer: &admin.Explainer{Engine: p.engine, ReadWrite: settings.Read, Portion: portion}, Level: cli.LevelOf(p.log), Log: p.log,
		Counters: &admin.Counters{Engine: p.engine, Scanner: counts.scanner, Log: p.log, Portion: portion}, Totals: p.totals, Decisions: p.decisions,
		Bypasses:  &admin.Bypasses{Engine: p.engine, List: p.bypasses, Clock: time.Now, Log: p.log},
		Published: p.published, Redis: p.redis,
	})), nil
}

// serveAdmin returns a task that serves the admin endpoint of p on listener.
func serveAdmin(p *process, handler http.Handler, listener net.Listener) func(context.Context) error {
	server := socket.NewHTTP(handler, func() bool { return false }, p.log)
	server.Protocols.SetHTTP1(true)
	server.ConnContext = admin.PeerContext
	p.log.Info("serving the admin endpoint", "admin", listener.Addr())
	return func(ctx context.Context) error {
		server.BaseContext = func(net.Listener) context.Context { return ctx } // ends the streams of denials
		failed := make(chan error, 1)
		go func() { failed <- server.Serve(listener) }()
		select {
		case err := <-failed:
			return fmt.Errorf("serve the admin endpoint on %s: %w", listener.Addr(), err)
		case <-ctx.Done():
		}
		err := socket.StopHTTP(server)
		if served := <-failed; !errors.Is(served, http.ErrServerClosed) {
			err = errors.Join(err, served)
		}
		return err
	}
}
