package load

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Bounds of one exchange.
const (
	DefaultTimeout = 10 * time.Second
	maxAnswer      = 4 << 20 // bytes of a body that are read
	maxHeads       = 100     // header lines
	readBuffer     = 8 << 10 // bytes; also the longest header line
)

// Endpoint is a server and how to show it who asks. Make it by NewEndpoint.
type Endpoint struct {
	address string
	secure  *tls.Config // nil: plain
	prefix  string      // of every path
	head    []byte      // what follows the request line, the same in every request
	timeout time.Duration
	now     func() time.Time
}

// NewEndpoint takes the URL of a server (http or https, a path is kept as a prefix) and the token
// sent with each request; "" sends none. now is the clock that time-outs are counted by; timeout
// bounds one exchange, connecting included; 0: DefaultTimeout.
//
// Errors: a URL or a token that cannot be sent.
func NewEndpoint(raw, token string, timeout time.Duration, now func() time.Time) (*Endpoint, error) {
	u, err := url.Parse(raw)
	if err != nil || u.Hostname() == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("load: %q is no http or https URL", raw)
	}
	if strings.ContainsAny(token, "\r\n") {
		return nil, errors.New("load: the token has a line break in it")
	}
	e := &Endpoint{address: u.Host, prefix: strings.TrimRight(u.EscapedPath(), "/"), timeout: timeout, now: now}
	if timeout <= 0 {
		e.timeout = DefaultTimeout
	}
	port := "80"
	if u.Scheme == "https" {
		port, e.secure = "443", &tls.Config{ServerName: u.Hostname(), NextProtos: []string{"http/1.1"}, MinVersion: tls.VersionTLS12}
	}
	if u.Port() == "" {
		e.address = net.JoinHostPort(u.Hostname(), port)
	}
	e.head = fmt.Appendf(nil, " HTTP/1.1\r\nHost: %s\r\n", u.Host)
	if token != "" {
		e.head = fmt.Appendf(e.head, "Authorization: Bearer %s\r\n", token)
	}
	return e, nil
}

// Conn is one keep-alive connection, used by one worker at a time. It connects when it is first
// used, and again after a failure.
type Conn struct {
	to   *Endpoint
	line net.Conn // nil: not connected
	in   *bufio.Reader
	out  []byte
	body []byte
}

// Conn makes a connection; it does not connect yet.
func (e *Endpoint) Conn() *Conn { return &Conn{to: e, in: bufio.NewReaderSize(nil, readBuffer)} }

// Close ends the connection.
func (c *Conn) Close() {
	if c.line != nil {
		_ = c.line.Close() // nothing that was sent waits for an answer
		c.line = nil
	}
}

// Post sends body to path, in one write, and reads the answer. An empty body goes without a
// content type. The answer's body is valid until the next call.
//
// Errors: the connection's own and answers that are no HTTP/1.1; the next call connects anew.
func (c *Conn) Post(ctx context.Context, path string, body []byte) (status int, answer []byte, err error) {
	if status, err = c.exchange(ctx, path, body); err != nil {
		c.Close()
		return 0, nil, err
	}
	return status, c.body, nil
}

func (c *Conn) exchange(ctx context.Context, path string, body []byte) (status int, err error) {
	if err := c.connect(ctx); err != nil {
		return 0, err
	}
	if err := c.line.SetDeadline(c.to.now().Add(c.to.timeout)); err != nil {
		return 0, err
	}
	c.out = append(append(append(c.out[:0], "POST "...), c.to.prefix...), path...)
	c.out = append(c.out, c.to.head...)
	if len(body) > 0 {
		c.out = append(c.out, "Content-Type: application/json\r\n"...)
	}
	c.out = append(strconv.AppendInt(append(c.out, "Content-Length: "...), int64(len(body)), 10), "\r\n\r\n"...)
	c.out = append(c.out, body...)
	if _, err := c.line.Write(c.out); err != nil {
		return 0, err
	}
	return c.read()
}

func (c *Conn) connect(ctx context.Context) error {
	if c.line != nil {
		return nil
	}
	dialer := net.Dialer{Timeout: c.to.timeout}
	line, err := dialer.DialContext(ctx, "tcp", c.to.address)
	if err != nil {
		return err
	}
	if c.to.secure != nil {
		line = tls.Client(line, c.to.secure) // shakes hands at the first write
	}
	c.line = line
	c.in.Reset(line)
	return nil
}

// read reads one answer into c.body.
func (c *Conn) read() (status int, err error) {
	line, err := c.readLine()
	if err != nil {
		return 0, err
	}
	if !bytes.HasPrefix(line, []byte("HTTP/1.1 ")) || len(line) < len("HTTP/1.1 200") {
		return 0, fmt.Errorf("load: the answer begins with %.40q", line)
	}
	if status, err = strconv.Atoi(string(line[9:12])); err != nil {
		return 0, fmt.Errorf("load: the answer begins with %.40q", line)
	}
	length, last := 0, false
	for n := 0; ; n++ {
		if line, err = c.readLine(); err != nil {
			return 0, err
		}
		if len(line) == 0 {
			break
		}
		if n == maxHeads {
			return 0, errors.New("load: the answer has too many headers")
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimSpace(value)
		switch {
		case bytes.EqualFold(name, []byte("Content-Length")):
			if length, err = strconv.Atoi(string(value)); err != nil || length < 0 {
				return 0, fmt.Errorf("load: an answer of length %.40q", value)
			}
		case bytes.EqualFold(name, []byte("Transfer-Encoding")):
			length = chunked
		case bytes.EqualFold(name, []byte("Connection")):
			last = bytes.EqualFold(value, []byte("close"))
		}
	}
	if err := c.readBody(length); err != nil {
		return 0, err
	}
	if last {
		c.Close()
	}
	return status, nil
}

// chunked stands for the length of a body that comes in chunks.
const chunked = -1

func (c *Conn) readBody(length int) error {
	c.body = c.body[:0]
	if length != chunked {
		return c.readMore(length)
	}
	for {
		line, err := c.readLine()
		if err != nil {
			return err
		}
		size, err := strconv.ParseUint(string(bytes.TrimSpace(line)), 16, 31)
		if err != nil {
			return fmt.Errorf("load: a chunk of size %.40q", line)
		}
		if err := c.readMore(int(size)); err != nil {
			return err
		}
		if line, err = c.readLine(); err != nil || len(line) > 0 {
			return errors.Join(err, errors.New("load: a chunk has no end"))
		}
		if size == 0 {
			return nil
		}
	}
}

// readMore appends n bytes to the body.
func (c *Conn) readMore(n int) error {
	had := len(c.body)
	if n > maxAnswer-had {
		return fmt.Errorf("load: an answer of more than %d bytes", maxAnswer)
	}
	if need := had + n; need > cap(c.body) {
		c.body = append(make([]byte, 0, need*2), c.body...)
	}
	c.body = c.body[:had+n]
	_, err := io.ReadFull(c.in, c.body[had:])
	return err
}

// readLine reads a line without its end.
func (c *Conn) readLine() ([]byte, error) {
	line, err := c.in.ReadSlice('\n')
	if err != nil {
		return nil, err
	}
	return bytes.TrimRight(line, "\r\n"), nil
}
