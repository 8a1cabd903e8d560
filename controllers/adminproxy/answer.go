package adminproxy

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"

	"github.com/weir-dev/weir/controllers/adminproxy/proxyapi"
)

// answerWriter writes a proxyapi.Answer, replica by replica, so that only the body of one is in memory.
type answerWriter struct {
	to io.Writer
	// pods by the hash of their status and body.
	pods  map[[sha256.Size]byte]string
	begun bool
	err   error
}

// newAnswerWriter begins the answer for a Limiter.
func newAnswerWriter(to io.Writer, limiter string) *answerWriter {
	name, _ := json.Marshal(limiter) //nolint:errchkjson // a string
	a := &answerWriter{to: to, pods: map[[sha256.Size]byte]string{}}
	a.write([]byte(`{"limiter":`), name, []byte(`,"replicas":[`))
	return a
}

// add writes the answer of a replica. Instead of a body that an earlier replica has too, it writes the name of that replica: a rule set can
// have megabytes. It returns false if the user does not read.
func (a *answerWriter) add(r proxyapi.Replica) bool {
	body := bytes.TrimSpace(r.Body)
	r.Body = nil
	if len(body) > 0 {
		hash := sha256.New()
		fmt.Fprintf(hash, "%d ", r.Status)
		_, _ = hash.Write(body)
		key := [sha256.Size]byte(hash.Sum(nil))
		if same, is := a.pods[key]; is {
			r.SameAs, body = same, nil
		} else {
			a.pods[key] = r.Pod
		}
	}
	head, _ := json.Marshal(r) //nolint:errchkjson // plain data
	if a.begun {
		a.write([]byte(","))
	}
	a.begun = true
	if len(body) == 0 {
		a.write(head)
	} else {
		a.write(head[:len(head)-1], []byte(`,"body":`), body, []byte("}"))
	}
	return a.err == nil
}

// end ends the answer.
func (a *answerWriter) end() { a.write([]byte("]}\n")) }

// write writes texts, unless an earlier one could not be written.
func (a *answerWriter) write(texts ...[]byte) {
	for _, text := range texts {
		if a.err == nil {
			_, a.err = a.to.Write(text)
		}
	}
}
