// Package traffic makes the requests of a public web API: a day with a morning and a night, many small clients and a few large ones, clients that retry,
// and a scraper. The same options make the same requests.
package traffic

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"time"
)

// Options of a log.
type Options struct {
	Lines, Clients int
	// JSON writes lines of JSON with a host and a tenant, in place of the combined format of nginx.
	JSON bool
	// Uniform clients send equally many requests.
	Uniform bool
	Seed    uint64
	// Length is the time from the first request to the last.
	Length time.Duration
}

// Write writes a log. Combined lines have times of a second.
func Write(w io.Writer, o Options) error {
	out := bufio.NewWriterSize(w, 1<<20)
	t := newTraffic(o.Seed, o.Lines, o.Clients, o.Length, o.Uniform)
	write := t.combined
	if o.JSON {
		write = t.json
	}
	for t.next() {
		write(out)
	}
	return out.Flush()
}

// traffic is the requests of a day.
type traffic struct {
	random  *rand.Rand
	zipf    *rand.Zipf
	lines   int
	clients int
	uniform bool
	length  time.Duration
	start   time.Time

	line   int
	at     time.Time
	client int
	path   string
	method string
	status int
	queue  []int // clients that send several requests at the same time
	buffer []byte
}

func newTraffic(seed uint64, lines, clients int, length time.Duration, uniform bool) *traffic {
	random := rand.New(rand.NewPCG(seed, seed))
	return &traffic{
		random: random, zipf: rand.NewZipf(random, 1.2, 20, uint64(clients-1)), lines: lines, clients: clients, uniform: uniform, length: length,
		start: time.Date(2026, 11, 2, 0, 0, 0, 0, time.UTC),
	}
}

// paths are those of the API, the most frequent first.
func paths() []string {
	return []string{"/v1/items", "/v1/search?q=shoes", "/v1/cart", "/v1/items/42", "/", "/static/app.js", "/v1/login", "/v1/orders", "/v1/export?format=csv"}
}

// next makes the next request, and returns false after the last.
func (t *traffic) next() bool {
	if t.line == t.lines {
		return false
	}
	// Density over the day: three times as many requests at 15:00 as at 03:00. The inverse of the distribution is close enough to a sine.
	part := float64(t.line) / float64(t.lines)
	part += 0.08 * math.Sin(2*math.Pi*part)
	t.at = t.start.Add(time.Duration(part * float64(t.length)))
	t.line++
	t.method, t.status = "GET", 200
	all := paths()
	t.path = all[min(int(t.random.ExpFloat64()*2), len(all)-1)]
	switch {
	case t.uniform:
		t.client = t.line * 7919 % t.clients
	case len(t.queue) > 0:
		t.client, t.queue = t.queue[0], t.queue[1:]
	default:
		t.client = int(t.zipf.Uint64())
	}
	switch hour := t.at.Hour(); {
	case t.uniform:
	case hour == 3 && t.random.IntN(3) == 0: // a scraper at night
		t.client, t.path = t.clients, "/v1/export?format=csv"
	case hour == 15 && t.random.IntN(400) == 0: // a client that retries
		for range 60 {
			t.queue = append(t.queue, t.client)
		}
	case t.random.IntN(50) == 0: // a page loads several parts
		t.queue = append(t.queue, t.client, t.client, t.client)
	}
	if t.path == "/v1/login" || t.path == "/v1/orders" {
		t.method = "POST"
	}
	return true
}

func (t *traffic) address() string {
	c := t.client
	return fmt.Sprintf("%d.%d.%d.%d", 11+c>>24&0x3f, c>>16&0xff, c>>8&0xff, c&0xff)
}

func (t *traffic) combined(out *bufio.Writer) {
	b := fmt.Appendf(t.buffer[:0], "%s - - [", t.address())
	b = t.at.AppendFormat(b, "02/Jan/2006:15:04:05 -0700")
	b = fmt.Appendf(b, "] \"%s %s HTTP/1.1\" %d %d \"-\" \"app/%d.1\"\n", t.method, t.path, t.status, 200+t.random.IntN(5000), t.client%9)
	t.buffer = b
	_, _ = out.Write(b) // the error is that of Flush
}

func (t *traffic) json(out *bufio.Writer) {
	b := fmt.Appendf(t.buffer[:0], `{"time":"%s","method":%q,"path":%q,"host":"api.shop.example","client":%q,"tenant":"tenant-%d","status":%d}`+"\n",
		t.at.Format("2006-01-02T15:04:05.000000Z"), t.method, t.path, t.address(), t.client%(1+t.clients/10), t.status)
	t.buffer = b
	_, _ = out.Write(b)
}
