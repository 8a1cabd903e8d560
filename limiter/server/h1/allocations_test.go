package h1

import (
	"bytes"
	"net/http"
	"testing"
)

// The objects are the text of the head, the request and its context. net/http allocates some 20 for the same requests.
func TestServer_AllocatesThreeObjectsForARequest(t *testing.T) {
	status, read := []string{"allowed"}, make([]byte, 1<<10)
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header()["X-Status"] = status
		for err := error(nil); err == nil; {
			_, err = r.Body.Read(read)
		}
	})
	for name, request := range map[string]string{
		"GET":  "GET /v1/auth/shop HTTP/1.1\r\nHost: weir\r\nX-Forwarded-Uri: /orders\r\nX-Forwarded-Method: GET\r\n\r\n",
		"POST": "POST /v1/check HTTP/1.1\r\nHost: weir\r\nContent-Type: application/json\r\nContent-Length: 17\r\n\r\n{\"domain\":\"shop\"}",
	} {
		t.Run(name, func(t *testing.T) {
			c := dial(t, overTCP(t, newRest(handler)))
			sent, response, end := []byte(request), make([]byte, 4<<10), []byte(endOfHead)
			call := func() {
				if _, err := c.Write(sent); err != nil {
					t.Fatal(err)
				}
				n, err := c.Read(response)
				if err != nil || !bytes.HasSuffix(response[:n], end) {
					t.Fatalf("%q, %v", response[:n], err)
				}
			}
			if got := testing.AllocsPerRun(200, call); got > 3 {
				t.Errorf("%v objects, want 3", got)
			}
		})
	}
}
