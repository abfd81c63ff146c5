package integration

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/holdfast-dev/holdfast/api"
)

// hearing is one reader of GET /v1/events, from its beginning on.
type hearing struct {
	mu   sync.Mutex
	all  []api.Event
	more chan struct{} // closed when there is another
	stop context.CancelFunc
	done chan struct{}
}

// hear reads what query asks for, after an id ("": from now on), until the test or the server
// ends. It returns once the stream is open.
func (c *caller) hear(query, after string) *hearing {
	c.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	h := &hearing{more: make(chan struct{}), stop: cancel, done: make(chan struct{})}
	resp, err := c.open(ctx, http.DefaultTransport, query, after)
	if err != nil {
		cancel()
		c.t.Fatal(err)
	}
	go func() {
		defer close(h.done)
		defer func() { _ = resp.Body.Close() }()
		lines := bufio.NewScanner(resp.Body)
		for lines.Scan() {
			data, found := strings.CutPrefix(lines.Text(), "data: ")
			var e api.Event
			if !found || json.Unmarshal([]byte(data), &e) != nil {
				continue
			}
			h.mu.Lock()
			h.all = append(h.all, e)
			close(h.more)
			h.more = make(chan struct{})
			h.mu.Unlock()
		}
	}()
	c.t.Cleanup(h.close)
	return h
}

// open opens a stream; its body is the caller's to close.
func (c *caller) open(ctx context.Context, through http.RoundTripper, query, after string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.s.run.URL+"/v1/events"+query, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+c.token)
	if after != "" {
		req.Header.Set("Last-Event-ID", after)
	}
	resp, err := through.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		_ = resp.Body.Close()
		return nil, fmt.Errorf("GET /v1/events%s: %d", query, resp.StatusCode)
	}
	return resp, nil
}

func (h *hearing) close() {
	h.stop()
	<-h.done
}

// await waits until there are n, and gives them all.
func (h *hearing) await(t testing.TB, n int) []api.Event {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), generous)
	defer cancel()
	for {
		h.mu.Lock()
		all, more := h.all[:len(h.all):len(h.all)], h.more
		h.mu.Unlock()
		if len(all) >= n {
			return all
		}
		select {
		case <-more:
		case <-ctx.Done():
			t.Fatalf("heard %d events, want %d: %+v", len(all), n, all)
		}
	}
}
