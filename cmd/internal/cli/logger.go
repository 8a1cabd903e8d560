package cli

import (
	"fmt"
	"io"
	"log/slog"
	"net"
)

// NewLogger returns a log with a format and a minimum level, as the flags of the log have them.
func NewLogger(w io.Writer, format, level string) (*slog.Logger, error) {
	options := slog.HandlerOptions{ReplaceAttr: readable}
	var least slog.Level
	if err := least.UnmarshalText([]byte(level)); err != nil {
		return nil, fmt.Errorf("--log-level %q is invalid: must be debug, info, warn or error", level)
	}
	current := new(slog.LevelVar)
	current.Set(least)
	options.Level = current
	switch format {
	case "text":
		return slog.New(leveled{slog.NewTextHandler(w, &options), current}), nil
	case "json":
		return slog.New(leveled{slog.NewJSONHandler(w, &options), current}), nil
	default:
		return nil, fmt.Errorf("--log-format %q is invalid: must be text or json", format)
	}
}

// leveled is a handler whose level can be changed.
type leveled struct {
	slog.Handler

	level *slog.LevelVar
}

func (h leveled) WithAttrs(attrs []slog.Attr) slog.Handler {
	return leveled{h.Handler.WithAttrs(attrs), h.level}
}

func (h leveled) WithGroup(name string) slog.Handler {
	return leveled{h.Handler.WithGroup(name), h.level}
}

// LevelOf returns the level of a log, which can be changed. If log is not from NewLogger, a change has no effect.
func LevelOf(log *slog.Logger) *slog.LevelVar {
	if h, ok := log.Handler().(leveled); ok {
		return h.level
	}
	return new(slog.LevelVar)
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
