package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/api"
)

// Bounds of a stream of events.
const (
	maxEventLine = 1 << 20          // bytes
	silence      = 45 * time.Second // three comments of the server's missed: the line is dead
	mostResume   = 10 * time.Second // between two attempts to resume
)

var errSilence = errors.New("nothing was heard, not even that there is nothing new")

// events calls each with every event after the id after ("": from now on), in order, until ctx
// ends or each says so. When the stream is cut it is resumed after the last event, for as long as
// it takes; only the first connection must succeed.
//
// Errors: each's own; *api.Problem of what will not get better; *unreachable at the beginning.
func (c *caller) events(ctx context.Context, query url.Values, after string, each func(api.Event) error) error {
	pause, connected := firstPause, false
	for {
		last, err := c.hear(ctx, query, after, each)
		if last != "" {
			after, pause = last, firstPause
		}
		connected = connected || resumable(err)
		var mine *enough
		switch {
		case errors.As(err, &mine):
			return mine.why
		case ctx.Err() != nil:
			return ctx.Err()
		case !resumable(err) && (!connected || isProblem(err)):
			return err
		}
		wait := max(jitter(pause), problemPause(err))
		c.app.say("the stream of events was cut (%v); resuming in %s", err, wait.Round(100*time.Millisecond))
		if !sleep(ctx, wait) {
			return ctx.Err()
		}
		pause = min(2*pause, mostResume)
	}
}

// enough carries what each said through the layers that would try again.
type enough struct{ why error }

func (s *enough) Error() string { return "enough" }

func isProblem(err error) bool {
	_, ok := errors.AsType[*api.Problem](err)
	return ok
}

// resumable reports whether the stream may be there again by and by.
func resumable(err error) bool {
	if problem, ok := errors.AsType[*api.Problem](err); ok {
		return problem.Status == http.StatusServiceUnavailable || problem.Status == http.StatusTooManyRequests
	}
	lost, ok := errors.AsType[*unreachable](err)
	return ok && lost.sent
}

func problemPause(err error) time.Duration {
	if problem, ok := errors.AsType[*api.Problem](err); ok {
		return min(retryAfter(problem), mostResume)
	}
	return 0
}

// hear reads one connection to its end. last is the id to resume after, "" when none was told.
func (c *caller) hear(ctx context.Context, query url.Values, after string, each func(api.Event) error) (last string, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	req, err := c.request(ctx, act{method: http.MethodGet, path: "/v1/events", query: query})
	if err != nil {
		return "", err
	}
	if after != "" {
		req.Header.Set("Last-Event-ID", after)
	}
	dead := time.AfterFunc(silence, func() { cancel(errSilence) })
	defer dead.Stop()
	resp, err := c.http.Do(req)
	if err != nil {
		return "", &unreachable{url: req.URL.Host, err: unwrapURL(err)}
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		raw, err := io.ReadAll(io.LimitReader(resp.Body, maxEventLine))
		if err == nil {
			_, err = c.read(act{}, resp, raw)
		}
		return "", err
	}
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(make([]byte, 0, 16<<10), maxEventLine)
	id, data := "", ""
	for lines.Scan() {
		dead.Reset(silence)
		name, value, _ := strings.Cut(lines.Text(), ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case name == "id":
			id = value
		case name == "data":
			data = value
		case lines.Text() != "":
		case data == "":
			last = either(id, last)
		default:
			var e api.Event
			if err := json.Unmarshal([]byte(data), &e); err != nil {
				return last, fail(exitUnavailable, "an event cannot be read: %w", err)
			}
			if err := each(e); err != nil {
				return last, &enough{err}
			}
			last, data = either(id, last), ""
		}
	}
	err = lines.Err()
	switch {
	case errors.Is(context.Cause(ctx), errSilence):
		err = errSilence
	case err == nil:
		err = errors.New("the server ended it")
	}
	return either(last, after), &unreachable{url: req.URL.Host, sent: true, err: err}
}

// either is the first of two ids that is there.
func either(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// eventLine is an event in one line.
func eventLine(e api.Event) string {
	return strings.TrimRight(fmt.Sprintf("%s  %-20s  %s", clockOf(e.At), e.Type, printable(aboutEvent(e))), " ")
}

func clockOf(at *api.Time) string {
	if at == nil {
		return "--:--:--"
	}
	return at.Local().Format(time.TimeOnly)
}

// aboutEvent says what an event is about: ids first, then what there is to say.
func aboutEvent(e api.Event) string {
	parts := make([]string, 0, 4)
	if e.Reservation != "" {
		parts = append(parts, e.Reservation)
	}
	if len(e.Limits) > 0 {
		parts = append(parts, strings.Join(e.Limits, ","))
	}
	if e.Subject != nil {
		parts = append(parts, e.Subject.Kind+":"+e.Subject.ID)
	}
	text := strings.Join(parts, "  ")
	if said := eventWords(e); said != "" {
		text += "   " + said
	}
	return text
}

// eventWords says how it came, in words.
func eventWords(e api.Event) string {
	held := ""
	if e.CreatedAt != nil && e.At != nil {
		held = "held " + short(e.At.Sub(e.CreatedAt.Time))
	}
	with := func(text, more string) string {
		if more == "" {
			return text
		}
		return text + ": " + more
	}
	switch e.Type {
	case "reservation.created", "reservation.extended":
		text := ""
		if e.TTLSeconds != nil {
			text = "for " + seconds(*e.TTLSeconds)
		}
		if e.Owner != nil {
			text += ", " + ownerAt(*e.Owner)
		}
		return text
	case "reservation.expired":
		return held + ", never released"
	case "reservation.forced":
		return with(held+", ended by "+e.By, e.Note)
	case "reservation.released":
		return with(held, e.Note)
	case "reservation.committed":
		if e.Charged != nil {
			return held + ", charged " + number(*e.Charged)
		}
		return held
	case "waiter.joined":
		if e.Owner != nil {
			return "waits, " + ownerAt(*e.Owner)
		}
		return "waits"
	case "waiter.left":
		if e.Reservation != "" {
			return "granted"
		}
		return ""
	case "gap":
		return "what came after " + e.After + " is not known any more"
	}
	return limitWordsOf(e)
}

// limitWordsOf says what an event tells of a limit.
func limitWordsOf(e api.Event) string {
	switch o := e.Override; {
	case o != nil && o.Ended:
		return "override ended"
	case o != nil && o.Amount == nil:
		return "override: unlimited, by " + e.By
	case o != nil:
		return "override: " + number(*o.Amount) + ", by " + e.By
	case e.Used != nil && e.Amount != nil:
		return number(*e.Used) + " of " + number(*e.Amount) + " used"
	case e.Amount != nil && e.Paused:
		return "paused, by " + e.By
	case e.Amount != nil:
		return "amount " + number(*e.Amount) + ", by " + e.By
	case e.Refused != nil:
		text := string(e.Code)
		if *e.Refused > 1 {
			text += ", one of " + number(*e.Refused)
		}
		return text
	}
	return ""
}
