package socket

import (
	"testing"

	"github.com/weir-dev/weir/test/documented"
)

func TestDurations_AreTheDocumentedOnes(t *testing.T) {
	documented.Equal(t, "StopTimeout", StopTimeout, "reference/http.md", `requests in progress, for at most (\d+ s), and exits`)
	documented.Equal(t, "ReadTimeout", ReadTimeout, "reference/http.md", `its body longer than (\d+ s),`)
	documented.Equal(t, "readHeaderTimeout", readHeaderTimeout, "reference/http.md", `the headers of a request take longer than (\d+ s)`)
	documented.Equal(t, "writeTimeout", writeTimeout, "reference/http.md", `has not read the response (\d+ s) after`)
	documented.Equal(t, "unreadTimeout", unreadTimeout, "reference/http.md", `when the body has arrived, after (\d+ s) at most`)
	documented.Equal(t, "idleTimeout", idleTimeout, "reference/http.md", `if it has been idle for (\d+ minutes)`)
}
