package h2

// Sizes of read buffers, in bytes. A connection that sends more at a time gets a larger one, so that idle connections take little memory.
const minRead, maxRead = 2 << 10, 32 << 10

// input reads a connection with a buffer that grows as long as reads fill it.
type input struct {
	conn *conn
	data []byte // read and not used
	buf  []byte
}

// Read implements io.Reader. It writes what the connection has to write before it waits for the client.
func (i *input) Read(p []byte) (int, error) {
	if len(i.data) == 0 {
		if err := i.fill(); err != nil {
			return 0, err
		}
	}
	n := copy(p, i.data)
	i.data = i.data[n:]
	return n, nil
}

func (i *input) fill() error {
	if i.buf == nil {
		i.buf = make([]byte, minRead)
	}
	i.conn.flush()
	n, err := i.conn.nc.Read(i.buf)
	i.data = i.buf[:n]
	if n > 0 {
		i.conn.touch()
		err = nil // the next Read returns it again
	}
	if n == len(i.buf) && n < maxRead {
		i.buf = make([]byte, min(4*n, maxRead))
	}
	return err //nolint:wrapcheck // it is that of the connection
}
