package load_test

import (
	"bufio"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/load"
)

func endpoint(t *testing.T, url, token string) *load.Endpoint {
	t.Helper()
	e, err := load.NewEndpoint(url, token, time.Minute, time.Now)
	if err != nil {
		t.Fatalf("NewEndpoint(%q): %v", url, err)
	}
	return e
}

// HF-1107: what is sent is what net/http understands, over one connection, and every form in
// which it answers is read.
func TestConn_SpeaksWithNetHTTP(t *testing.T) {
	t.Parallel()
	var connections atomic.Int64
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		text := fmt.Sprintf("%s %s %s %q %q", r.Method, r.URL.Path, r.Header.Get("Authorization"), r.Header["Content-Type"], body)
		switch {
		case strings.HasSuffix(r.URL.Path, "/chunks"):
			for part := range strings.SplitAfterSeq(text, " ") {
				_, _ = io.WriteString(w, part)
				w.(http.Flusher).Flush()
			}
		case strings.HasSuffix(r.URL.Path, "/last"):
			w.Header().Set("Connection", "close")
			_, _ = io.WriteString(w, text)
		case strings.HasSuffix(r.URL.Path, "/none"):
			w.WriteHeader(http.StatusNoContent)
		default:
			w.WriteHeader(http.StatusCreated)
			_, _ = io.WriteString(w, text)
		}
	}))
	server.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			connections.Add(1)
		}
	}
	server.Start()
	defer server.Close()
	conn := endpoint(t, server.URL+"/under/", "abc").Conn()
	defer conn.Close()
	for _, c := range []struct {
		path, body string
		status     int
		want       string
	}{
		{"/plain", `{"a":1}`, 201, `POST /under/plain Bearer abc ["application/json"] "{\"a\":1}"`},
		{"/chunks", "", 200, `POST /under/chunks Bearer abc [] ""`},
		{"/none", "x", 204, ""},
		{"/plain", strings.Repeat("long", 5000), 201, `POST /under/plain Bearer abc ["application/json"] "` + strings.Repeat("long", 5000) + `"`},
		{"/last", "", 200, `POST /under/last Bearer abc [] ""`},
	} {
		status, got, err := conn.Post(t.Context(), c.path, []byte(c.body))
		if err != nil || status != c.status || string(got) != c.want {
			t.Errorf("Post(%s, %.20q): got %d %.80q, %v; want %d %.80q", c.path, c.body, status, got, err, c.status, c.want)
		}
	}
	if n := connections.Load(); n != 1 {
		t.Errorf("%d connections were made, want 1", n)
	}
	if _, _, err := conn.Post(t.Context(), "/plain", nil); err != nil || connections.Load() != 2 {
		t.Errorf("after the server closed: %v, %d connections; want a second one", err, connections.Load())
	}
}

func TestConn_SpeaksTLS(t *testing.T) {
	t.Parallel()
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // it tells of the shake that fails
	server.StartTLS()
	defer server.Close()
	conn := endpoint(t, server.URL, "").Conn()
	defer conn.Close()
	if _, _, err := conn.Post(t.Context(), "/", nil); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("a certificate nobody vouches for: got %v, want it refused", err)
	}
}

// HF-1107: what is no answer is a failure, not a wait and not a panic.
func TestConn_RefusesWhatIsNoAnswer(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]string{
		"another protocol":     "SSH-2.0-server\r\n",
		"a status that is not": "HTTP/1.1 abc\r\n\r\n",
		"a negative length":    "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
		"a huge length":        "HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n",
		"a huge chunk":         "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n7fffffff\r\n",
		"a chunk of no size":   "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
		"a chunk without end":  "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n",
		"headers for ever":     "HTTP/1.1 200 OK\r\n" + strings.Repeat("A: b\r\n", 200),
		"a line for ever":      "HTTP/1.1 200 OK\r\nA: " + strings.Repeat("b", 20_000),
		"half an answer":       "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc",
		"nothing":              "",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn := endpoint(t, "http://"+say(t, answer), "").Conn()
			defer conn.Close()
			if status, got, err := conn.Post(t.Context(), "/", nil); err == nil {
				t.Errorf("the answer %.60q: got %d %q, want an error", answer, status, got)
			}
		})
	}
}

// say answers each connection with text and ends it.
func say(t *testing.T, text string) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = http.ReadRequest(bufio.NewReader(c))
			_, _ = io.WriteString(c, text)
			_ = c.Close()
		}
	}()
	t.Cleanup(func() { _ = l.Close(); <-done })
	return l.Addr().String()
}

func TestEndpoint_RefusesWhatCannotBeSent(t *testing.T) {
	t.Parallel()
	for _, c := range [][2]string{{"", ""}, {"127.0.0.1:80", ""}, {"ftp://a", ""}, {"http://", ""}, {"http://a", "x\r\nEvil: y"}} {
		if _, err := load.NewEndpoint(c[0], c[1], 0, time.Now); err == nil {
			t.Errorf("NewEndpoint(%q, %q): want an error", c[0], c[1])
		}
	}
}

// HF-1108: the three spreads, and the same stream for the same seed.
func TestKeys_SpreadAsTheySay(t *testing.T) {
	t.Parallel()
	const draws, subjects = 100_000, 1000
	for _, c := range []struct {
		spread         load.Spread
		leastSeen      int // different subjects
		firstAtLeast   int
		firstAtMost    int
		sayingIncludes string
	}{
		{load.Even, 1000, 50, 160, "1000 subjects"},
		{load.Zipf, 500, 10_000, 40_000, "zipf"},
		{load.Hot, 1, draws, draws, "one hot"},
	} {
		k := load.Keys{Spread: c.spread, Subjects: subjects}
		pick, same, seen := k.Picker(7), k.Picker(7), map[int]int{}
		for range draws {
			n := pick()
			if n != same() || n < 0 || n >= subjects {
				t.Fatalf("%s: subject %d is out of bounds or not the same for the same seed", k, n)
			}
			seen[n]++
		}
		if len(seen) < c.leastSeen || seen[0] < c.firstAtLeast || seen[0] > c.firstAtMost || !strings.Contains(k.String(), c.sayingIncludes) {
			t.Errorf("%s: %d subjects were seen, the first %d times of %d", k, len(seen), seen[0], draws)
		}
	}
}
