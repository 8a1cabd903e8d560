package redisstore

import (
	"testing"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/redisclient"
)

func TestSuspectCharges_AreThoseOfErrorsThatACounterCanCause(t *testing.T) {
	for reply, want := range map[string]bool{
		"": false, "ERR user_script:12: attempt to compare nil with number": true, "NOPERM no permissions to access a key": true,
		"MOVED 1 127.0.0.1:1": false, "OOM command not allowed": false, "BUSY Redis is busy": false, "LOADING Redis is loading": false,
	} {
		c := &call{charges: []limiter.Charge{{Key: "key", Limit: probeLimit(), Cost: 1}}}
		if reply != "" {
			c.reply.err = redisclient.WithKind(replyError(reply))
		}
		if got := len(suspectCharges([]*call{c})) > 0; got != want {
			t.Errorf("%q: %v, want %v", reply, got, want)
		}
	}
}

// replyError is an error reply of Redis.
type replyError string

func (e replyError) Error() string { return string(e) }
func (replyError) RedisError()     {}
