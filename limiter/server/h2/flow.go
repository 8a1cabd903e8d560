package h2

import (
	"math"
	"slices"

	"golang.org/x/net/http2"
)

// defaultWindow is the window of connections and streams without other settings, in bytes.
const defaultWindow = 65535

// windows bound what the server can send. The mutex of the connection guards them.
type windows struct {
	connection int       // bytes of DATA
	initial    int       // the window of a new stream
	highest    int       // at least the most that a stream's window is over initial
	frame      int       // the largest payload that the client accepts
	blocked    []*stream // those that have something to send
	responded  bool      // since the last ping of the client
}

// maxSettings bounds the settings in a frame, as the server of x/net does. HTTP/2 defines fewer than ten.
const maxSettings = 100

func (c *conn) onSettings(f *http2.SettingsFrame) error {
	if f.IsAck() {
		return nil
	}
	if f.NumSettings() > maxSettings {
		return http2.ConnectionError(http2.ErrCodeEnhanceYourCalm)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	initial := c.initial
	err := f.ForeachSetting(func(s http2.Setting) error {
		if err := s.Valid(); err != nil {
			return err //nolint:wrapcheck // an http2.ConnectionError
		}
		switch s.ID {
		case http2.SettingMaxFrameSize:
			c.frame = min(int(s.Val), maxFrame)
		case http2.SettingInitialWindowSize:
			initial = int(s.Val) // the last one applies; it costs time for each stream
		case http2.SettingHeaderTableSize:
			if s.Val < tableSize && c.table == tableDefault {
				c.table = tableReduced
			}
		default:
		}
		return nil
	})
	if err == nil && initial != c.initial {
		err = c.resize(initial)
	}
	if err != nil {
		return err //nolint:wrapcheck // an http2.ConnectionError
	}
	c.out = appendFrame(c.out, 0, http2.FrameSettings, http2.FlagSettingsAck, 0)
	c.unblock()
	return nil
}

// resize changes the windows of all streams, which can become negative. Streams store the difference, so that it takes no time for each of them,
// except to find one that is too large.
func (c *conn) resize(initial int) error {
	c.initial = initial
	if initial+c.highest <= math.MaxInt32 {
		return nil
	}
	c.highest = 0
	for _, s := range c.streams {
		c.highest = max(c.highest, s.sendWindow)
	}
	if initial+c.highest > math.MaxInt32 {
		return http2.ConnectionError(http2.ErrCodeFlowControl)
	}
	return nil
}

func (c *conn) onWindowUpdate(f *http2.WindowUpdateFrame) error {
	if f.StreamID != 0 && c.isIdle(f.StreamID) {
		return http2.ConnectionError(http2.ErrCodeProtocol)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if f.StreamID == 0 {
		if c.connection += int(f.Increment); c.connection > math.MaxInt32 {
			return http2.ConnectionError(http2.ErrCodeFlowControl)
		}
		c.unblock()
		return nil
	}
	s := c.streams[f.StreamID]
	if s == nil {
		return nil
	}
	if s.sendWindow += int(f.Increment); c.initial+s.sendWindow > math.MaxInt32 {
		return http2.StreamError{StreamID: f.StreamID, Code: http2.ErrCodeFlowControl}
	}
	c.highest = max(c.highest, s.sendWindow)
	if s.pending != nil && c.connection > 0 {
		c.sendPending(s)
		if len(s.pending) == 0 {
			c.unblock()
		}
	}
	return nil
}

// block sends what the windows allow of a response, and the rest later.
func (c *conn) block(s *stream) {
	c.blocked = append(c.blocked, s)
	c.unblock()
}

// unblock sends what the windows allow.
func (c *conn) unblock() {
	if len(c.blocked) == 0 {
		return
	}
	c.blocked = slices.DeleteFunc(c.blocked, func(s *stream) bool {
		if s.reset {
			return true
		}
		c.sendPending(s)
		if len(s.pending) > 0 {
			return false
		}
		s.pending = nil
		c.finish(s, s.trailer)
		return true
	})
}

// sendPending sends a part of a response.
func (c *conn) sendPending(s *stream) {
	for len(s.pending) > 0 {
		n := min(len(s.pending), c.frame, c.connection, c.initial+s.sendWindow)
		if n <= 0 {
			return
		}
		c.connection -= n
		s.sendWindow -= n
		c.responded = true
		c.out = appendFrame(c.out, n, http2.FrameData, 0, s.id, s.pending[:n]...)
		s.pending = s.pending[n:]
	}
}
