package h2

import (
	"encoding/binary"

	"golang.org/x/net/http2"
)

const (
	frameHeader   = 9 // bytes
	messageHeader = 5 // bytes: whether the message is compressed, and its length
	maxFrame      = 16 << 10
)

// appendFrame appends a frame. The payload can be shorter than length: the caller then appends the rest.
func appendFrame(b []byte, length int, kind http2.FrameType, flags http2.Flags, stream uint32, payload ...byte) []byte {
	b = append(b, byte(length>>16), byte(length>>8), byte(length), byte(kind), byte(flags))
	b = binary.BigEndian.AppendUint32(b, stream)
	return append(b, payload...)
}

func appendWindowUpdate(b []byte, stream uint32, n int) []byte {
	return binary.BigEndian.AppendUint32(appendFrame(b, 4, http2.FrameWindowUpdate, 0, stream), uint32(n))
}

func appendReset(b []byte, stream uint32, code http2.ErrCode) []byte {
	return binary.BigEndian.AppendUint32(appendFrame(b, 4, http2.FrameRSTStream, 0, stream), uint32(code))
}

func appendGoAway(b []byte, last uint32, code http2.ErrCode, debug string) []byte {
	b = appendFrame(b, 8+len(debug), http2.FrameGoAway, 0, 0)
	b = binary.BigEndian.AppendUint32(b, last)
	b = binary.BigEndian.AppendUint32(b, uint32(code))
	return append(b, debug...)
}

func appendSettings(b []byte, settings ...http2.Setting) []byte {
	b = appendFrame(b, 6*len(settings), http2.FrameSettings, 0, 0)
	for _, s := range settings {
		b = binary.BigEndian.AppendUint16(b, uint16(s.ID))
		b = binary.BigEndian.AppendUint32(b, s.Val)
	}
	return b
}

// appendHeaders appends a header block as a HEADERS frame, and CONTINUATION frames if it is long.
func appendHeaders(b []byte, stream uint32, block []byte, end bool) []byte {
	kind, flags := http2.FrameHeaders, http2.Flags(0)
	if end {
		flags = http2.FlagHeadersEndStream
	}
	for {
		part := block[:min(len(block), maxFrame)]
		if block = block[len(part):]; len(block) == 0 {
			flags |= http2.FlagHeadersEndHeaders
		}
		b = appendFrame(b, len(part), kind, flags, stream, part...)
		if len(block) == 0 {
			return b
		}
		kind, flags = http2.FrameContinuation, 0
	}
}

// appendMessageHeader appends the prefix of a message that is not compressed.
func appendMessageHeader(b []byte, length int) []byte {
	return binary.BigEndian.AppendUint32(append(b, 0), uint32(length))
}
