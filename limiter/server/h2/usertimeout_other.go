//go:build !linux

package h2

import (
	"net"
	"time"
)

func setUserTimeout(net.Conn, time.Duration) {}
