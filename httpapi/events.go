package httpapi

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/api"
	"github.com/holdfast-dev/holdfast/events"
	"github.com/holdfast-dev/holdfast/limits"
)

const (
	commentEvery  = 15 * time.Second // when there is nothing to tell
	streamWrite   = 10 * time.Second // most that a reader may take to take in one write
	maxEventWrite = 256 << 10        // bytes gathered for one write, more or less
	reconnect     = 2 * time.Second  // a browser waits so long before it resumes
	maxEventTypes = 32               // named in a filter
)

var (
	streamType = []string{"text/event-stream"}
	unbuffered = []string{"no"}
)

// streamEvents answers GET /v1/events: Server-Sent Events until the caller goes away, the replica
// drains, or the caller falls behind what is kept. Last-Event-ID resumes after that event.
//
// Access: one's own events; the whole tenant's with holds:read.
func (s *server) streamEvents(_ context.Context, c *call) (int, any, error) {
	v, err := c.eventView()
	if err != nil {
		return 0, nil, err
	}
	x := c.params.Response().Writer.(*exchange) // put there by edge
	return s.stream(c.req.Context(), x, v)
}

// eventView is what the request asks to hear, and may.
// Errors: *wireError for a parameter or Last-Event-ID.
func (c *call) eventView() (v events.View, err error) {
	by := c.caller()
	v = events.View{Tenant: by.Tenant, Principal: by.Principal, Sees: by.Sees, Limit: c.query["limit"]}
	if given := c.req.Header["Last-Event-Id"]; len(given) > 0 && given[0] != "" {
		after, err := events.ParsePos(given[0])
		if err != nil || len(given) > 1 {
			return v, &wireError{code: api.InvalidHeader, header: "Last-Event-ID", detail: "Send the id of the last event you saw, such as 1874.0, or leave the header out."}
		}
		v.After = &after
	}
	if text, there := c.query["limit"]; there && (text == "" || len(text) > limits.MaxAction || !printable(text)) {
		return v, badQuery("limit", "The filter must be 1 to 128 bytes of readable text.")
	}
	if text, there := c.query["subject"]; there {
		if v.Subject, err = limits.ParseSubject(text); err != nil {
			return v, badQuery("subject", "A subject is written kind:id, such as user:u_42.")
		}
	}
	text, there := c.query["type"]
	if !there {
		return v, nil
	}
	for _, word := range strings.SplitN(text, ",", maxEventTypes) {
		t, ok := events.ParseType(word)
		if !ok {
			return v, badQuery("type", "The types are "+eventTypeWords()+"; several are separated by commas.")
		}
		v.Types = append(v.Types, t)
	}
	return v, nil
}

func eventTypeWords() string {
	words := make([]string, 0, maxEventTypes)
	for _, t := range events.Types() {
		words = append(words, t.String())
	}
	return strings.Join(words, ", ")
}

// stream writes what v shows to x. Errors: those of events.Hub.Open, before anything was written.
func (s *server) stream(ctx context.Context, x *exchange, v events.View) (int, any, error) {
	if s.Events == nil {
		return 0, nil, &wireError{code: api.NotFound, detail: "This server has no event stream."}
	}
	reader, err := s.Events.Open(v)
	if err != nil {
		return 0, nil, err
	}
	defer reader.Close()
	h := x.Header()
	h["Content-Type"], h["X-Accel-Buffering"] = streamType, unbuffered // a proxy that gathers would hold events back
	x.WriteHeader(http.StatusOK)
	if x.head {
		return 0, served{}, nil
	}
	out := streamWriter{exchange: x, control: http.NewResponseController(x)}
	// The deadlines of the connection are those of a short request; each write has its own.
	_ = out.control.SetReadDeadline(time.Time{})
	fmt.Fprintf(&out.buf, ": events\nretry: %d\n\n", reconnect.Milliseconds())
	for err = out.flush(s.Now()); err == nil; err = out.flush(s.Now()) {
		var es []*events.Event
		if es, err = reader.Next(ctx, commentEvery); err != nil {
			break
		}
		if len(es) == 0 {
			out.keepAlive(reader.Pos())
		}
		if err = out.gather(es, s.Now); err != nil {
			break
		}
	}
	switch {
	case errors.Is(err, events.ErrSlow):
		out.buf.WriteString(": you fell behind; resume with Last-Event-ID\n\n")
		_ = out.flush(s.Now())
	case errors.Is(err, events.ErrDraining):
		out.buf.WriteString(": this replica is shutting down; resume elsewhere\n\n")
		_ = out.flush(s.Now())
	case ctx.Err() == nil:
		x.cause = err
	}
	return 0, served{}, nil
}

// streamWriter gathers events and sends them.
type streamWriter struct {
	exchange *exchange
	control  *http.ResponseController
	buf      bytes.Buffer
	told     events.Pos // the last id sent
}

// gather puts events into the buffer, and sends it when it has grown.
func (w *streamWriter) gather(es []*events.Event, now func() time.Time) error {
	for _, e := range es {
		w.buf.Write(e.Frame(eventFrame))
		if !e.Local() {
			w.told = e.Pos
		}
		if w.buf.Len() >= maxEventWrite {
			if err := w.flush(now()); err != nil {
				return err
			}
		}
	}
	return nil
}

// keepAlive is a comment, and the position when it has moved: a reader for whom nothing happens
// resumes from there, rather than from its last event, before which history may be gone.
func (w *streamWriter) keepAlive(pos events.Pos) {
	w.buf.WriteString(": nothing new\n")
	if w.told != pos {
		w.told = pos
		w.buf.WriteString("id: " + pos.String() + "\n")
	}
	w.buf.WriteByte('\n')
}

// flush sends what was gathered. A reader that does not take it in time is gone.
func (w *streamWriter) flush(now time.Time) error {
	if err := w.control.SetWriteDeadline(now.Add(streamWrite)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	if _, err := w.exchange.Write(w.buf.Bytes()); err != nil {
		return err
	}
	w.buf.Reset()
	if err := w.control.Flush(); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	return nil
}
