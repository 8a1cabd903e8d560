package cli

import (
	"bytes"
	"testing"
	"testing/synctest"
	"time"
)

func TestNotice_AppearsOnlyAfterASecond(t *testing.T) {
	for wait, want := range map[time.Duration]string{999 * time.Millisecond: "", 1001 * time.Millisecond: "waiting for the operator …\n"} {
		synctest.Test(t, func(t *testing.T) {
			var out bytes.Buffer
			done := notice(&out, "the operator")
			time.Sleep(wait)
			synctest.Wait()
			done()
			time.Sleep(time.Hour)
			if out.String() != want {
				t.Errorf("after %v: %q, want %q", wait, out.String(), want)
			}
		})
	}
}

func TestWaiting_PrintsOnlyOnATerminal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		defer Waiting(&out, "the operator")()
		time.Sleep(time.Hour)
		if out.Len() > 0 {
			t.Errorf("%q", out.String())
		}
	})
}
