package pages

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/web"
)

// Timing of updates.
const (
	lookEvery   = 2 * time.Second        // without word of changes
	lookIdle    = 5 * time.Second        // with it, for what only time changes
	lookRest    = 500 * time.Millisecond // between two looks at least, however much changes
	lookShare   = 4                      // rests are that many times as long as the look took: a slow page costs a fifth of its time
	looksAtOnce = 4                      // of all pages of this replica
	aliveEvery  = 10 * time.Second       // something is said at least that often; the page waits 25 s
	writeLimit  = 10 * time.Second       // of one message: who reads slower is let go
	streamLife  = 15 * time.Minute       // then the browser connects again
)

// liveURL is where a page that was just made is kept up to date. It says what the page shows,
// so that only what differs is sent.
func (p *Pages) liveURL(v *visit, made web.View) string {
	q := v.r.URL.Query()
	q.Del("done")
	q.Set("state", web.Digest(made))
	return p.Prefix + "/live" + strings.TrimPrefix(v.r.URL.EscapedPath(), p.Prefix) + "?" + q.Encode()
}

// follows answers with the changes of a page, as long as somebody looks at it.
func (p *Pages) follows(one page) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		v, ok := p.enter(r.Context(), w, r)
		if !ok {
			return
		}
		v.follows = true
		if one.scope != "" && !v.who.Has(one.scope) {
			p.forbid(v, one.scope)
			return
		}
		leave, ok := p.streams.enter(v.who.Tenant + " " + v.who.ID())
		if !ok {
			w.Header().Set("Retry-After", "10")
			p.message(v, http.StatusServiceUnavailable, web.Message{Heading: "Not available now", Text: "As many pages as may be are kept up to date already; reload to see what is new."})
			return
		}
		defer leave()
		headers(w.Header())
		w.Header().Set("Content-Type", "text/event-stream")
		w.Header().Set("X-Accel-Buffering", "no") // of proxies that would keep it back
		p.stream(r.Context(), v, one)
	}
}

// stream tells until somebody goes away, the session ends, or the server does.
func (p *Pages) stream(ctx context.Context, v *visit, one page) {
	out := &teller{w: v.w, control: http.NewResponseController(v.w)}
	changes := p.watch(v)
	defer func() { changes.Close() }()
	var shown *web.View
	state := v.query("state")
	began, said := v.now, time.Time{}
	for !p.Draining() {
		v.now, v.windows = p.Now(), p.WindowNow()
		if v.now.Sub(began) > streamLife || !p.stillIn(ctx, v, out) {
			return
		}
		next, took, err := p.look(ctx, v, one)
		switch {
		case err != nil && ctx.Err() != nil:
			return
		case err != nil: // the page stays as it is, and says why
			err = out.patch(web.Around(p.around(ctx, v), v.now.UnixMilli()))
			shown, said = nil, v.now
		case shown == nil && state == web.Digest(next):
			shown = &next
			err = out.patch(web.Around(next.Around, v.now.UnixMilli())) // it is no part of the digest
			said = v.now
		default:
			patch := web.Diff(shown, next, v.now.UnixMilli())
			if shown = &next; !patch.Empty() {
				err = out.patch(patch)
				said = v.now
			} else if v.now.Sub(said) >= aliveEvery {
				err = out.alive(v.now)
				said = v.now
			}
		}
		if out.failed {
			return
		}
		if err == nil && next.Still {
			_ = out.send("over", "This has ended. Reload to see how.") // the stream ends anyway
			return
		}
		if !rest(ctx, max(lookRest, lookShare*took)) {
			return
		}
		if err := changes.Wait(ctx, lookIdle); err != nil {
			changes.Close()
			changes = clock{}
		}
	}
}

// watch is word of changes, or a clock when there is none to be had.
func (p *Pages) watch(v *visit) Changes {
	if p.Changes != nil {
		if changes, err := p.Changes(v.who.Tenant, v.who.ID()); err == nil {
			return changes
		}
	}
	return clock{}
}

// clock is Changes that knows of none: something may always have changed.
type clock struct{}

// Wait waits a little, whatever happens.
func (clock) Wait(ctx context.Context, _ time.Duration) error {
	rest(ctx, lookEvery)
	return nil
}

// Close has nothing to close.
func (clock) Close() {}

// rest waits, and reports whether there is anybody left to wait for.
func rest(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// look makes the view within the budget of a page, and tells what that took.
func (p *Pages) look(ctx context.Context, v *visit, one page) (made web.View, took time.Duration, err error) {
	select {
	case p.looks <- struct{}{}:
		defer func() { <-p.looks }()
	case <-ctx.Done():
		return made, 0, context.Cause(ctx)
	}
	ctx, cancel := context.WithTimeout(ctx, pageBudget)
	defer cancel()
	began := p.Now()
	made, err = p.make(ctx, v, one)
	return made, p.Now().Sub(began), err
}

// streams are those who are kept up to date: maxStreams in all, maxStreamsEach of one person.
type streams struct {
	mu   sync.Mutex
	all  int
	each map[string]int
}

// enter lets one more in, if there is room.
func (s *streams) enter(who string) (leave func(), ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all >= maxStreams || s.each[who] >= maxStreamsEach {
		return nil, false
	}
	s.all++
	s.each[who]++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.all--
		if s.each[who]--; s.each[who] == 0 {
			delete(s.each, who)
		}
	}, true
}

// stillIn reports whether the session stands; when it does not, the page is told.
func (p *Pages) stillIn(ctx context.Context, v *visit, out *teller) bool {
	cookie, err := v.r.Cookie(cookieName(v.r))
	if err != nil {
		return false
	}
	_, err = p.Sessions.Open(ctx, cookie.Value)
	if errors.Is(err, session.ErrNoSession) {
		_ = out.send("over", "You are signed out. Reload to sign in again.") // the stream ends anyway
		return false
	}
	return true
}

// teller writes server-sent events.
type teller struct {
	w       http.ResponseWriter
	control *http.ResponseController
	failed  bool
}

func (t *teller) patch(patch web.Patch) error {
	encoded, err := json.Marshal(patch)
	if err != nil {
		return err
	}
	return t.send("", string(encoded))
}

func (t *teller) alive(now time.Time) error {
	return t.send("alive", strconv.FormatInt(now.UnixMilli(), 10))
}

// send writes one event whose data has no line break.
func (t *teller) send(event, data string) error {
	text := "data: " + data + "\n\n"
	if event != "" {
		text = "event: " + event + "\n" + text
	}
	err := t.control.SetWriteDeadline(time.Now().Add(writeLimit)) //nolint:forbidigo // a deadline of the connection, by its own clock
	if errors.Is(err, http.ErrNotSupported) {
		err = nil // of a test's recorder
	}
	if err == nil {
		_, err = fmt.Fprint(t.w, text)
	}
	if err == nil {
		if err = t.control.Flush(); errors.Is(err, http.ErrNotSupported) {
			err = nil
		}
	}
	t.failed = err != nil
	return err
}
