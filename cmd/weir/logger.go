package main

import (
	"fmt"
	"io"
	"log/slog"
	"net"
)

func newLogger(w io.Writer, format, level string) (*slog.Logger, error) {
	options := slog.HandlerOptions{ReplaceAttr: readable}
	var least slog.Level
	if err := least.UnmarshalText([]byte(level)); err != nil {
		return nil, fmt.Errorf("--log-level %q is invalid: must be debug, info, warn or error", level)
	}
	options.Level = least
	switch format {
	case "text":
		return slog.New(slog.NewTextHandler(w, &options)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(w, &options)), nil
	default:
		return nil, fmt.Errorf("--log-format %q is invalid: must be text or json", format)
	}
}

// readable formats durations and addresses as text. In JSON they would be nanoseconds and an object.
func readable(_ []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindDuration {
		a.Value = slog.StringValue(a.Value.Duration().String())
	} else if address, ok := a.Value.Any().(net.Addr); ok {
		a.Value = slog.StringValue(address.String())
	}
	return a
}
