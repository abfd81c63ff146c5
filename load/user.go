package load

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/holdfast-dev/holdfast/api"
)

// user is one worker: it asks for itself and on its own connection.
type user struct {
	Work
	conn *Conn
	pick func() int
	head []byte // of a body, up to the subject's number
	tail []byte // of a body, after it
	beat []byte // the body of an extend
	body []byte
	path []byte
	id   []byte
}

func (u *user) step(ctx context.Context) (Step, error) {
	u.head = fmt.Appendf(nil, `{"subject":{"kind":%s,"id":"%s`, quote(u.Kind), u.Name)
	u.tail = fmt.Appendf(nil, `"},"action":%s`, quote(u.Act))
	ttl := strconv.FormatInt(int64(u.TTL/time.Second), 10)
	if u.Verb == Consume {
		u.tail = append(u.tail, `,"mode":"consume"}`...)
	} else {
		u.tail = append(u.tail, `,"ttlSeconds":`+ttl+`}`...)
	}
	u.beat = []byte(`{"ttlSeconds":` + ttl + `}`)
	switch u.Verb {
	case ReserveExtendRelease:
		return func(ctx context.Context) (Outcome, error) { return u.cycle(ctx, true) }, nil
	case Reserve:
		return u.keep, nil
	case Consume:
		return u.consume, nil
	case Refusal:
		return u.refusal, nil
	case Heartbeats:
		return u.heartbeats(ctx)
	default:
		return func(ctx context.Context) (Outcome, error) { return u.cycle(ctx, false) }, nil
	}
}

func quote(s string) string {
	text, _ := json.Marshal(s) // a string always can be
	return string(text)
}

// reserve asks for a hold and leaves its id in u.id.
func (u *user) reserve(ctx context.Context) (Outcome, error) {
	u.ask()
	status, answer, err := u.conn.Post(ctx, "/v1/reservations", u.body)
	if err != nil {
		return 0, err
	}
	if status == api.NoFreeSlot.Status() {
		return Refused, nil
	}
	if !good(status) {
		return 0, problem("reserve", status, answer)
	}
	id := reservationID(answer)
	if id == nil {
		return 0, fmt.Errorf("reserve: no id in the answer %.80q", answer)
	}
	u.id = append(u.id[:0], id...)
	return Granted, nil
}

// ask makes the body of a request for the next subject.
func (u *user) ask() {
	u.body = strconv.AppendInt(append(u.body[:0], u.head...), int64(u.pick()), 10)
	u.body = append(u.body, u.tail...)
}

// act extends or releases the hold of u.id.
func (u *user) act(ctx context.Context, verb string, body []byte) error {
	u.path = append(append(append(u.path[:0], "/v1/reservations/"...), u.id...), verb...)
	status, answer, err := u.conn.Post(ctx, string(u.path), body)
	if err == nil && !good(status) {
		err = problem(verb[1:], status, answer)
	}
	return err
}

func (u *user) cycle(ctx context.Context, extend bool) (Outcome, error) {
	outcome, err := u.reserve(ctx)
	if err != nil || outcome == Refused {
		return outcome, err
	}
	if extend {
		if err := u.act(ctx, "/extend", u.beat); err != nil {
			return 0, err
		}
	}
	return Granted, u.act(ctx, "/release", nil)
}

func (u *user) keep(ctx context.Context) (Outcome, error) {
	outcome, err := u.reserve(ctx)
	if err == nil && outcome == Granted {
		u.Kept.add(string(u.id))
	}
	return outcome, err
}

func (u *user) refusal(ctx context.Context) (Outcome, error) {
	outcome, err := u.reserve(ctx)
	if err == nil && outcome == Granted {
		u.Kept.add(string(u.id))
		return 0, errors.New("a reserve was granted where the limit was to be full")
	}
	return outcome, err
}

func (u *user) consume(ctx context.Context) (Outcome, error) {
	u.ask()
	status, answer, err := u.conn.Post(ctx, "/v1/checks", u.body)
	switch {
	case err != nil:
		return 0, err
	case !good(status):
		return 0, problem("consume", status, answer)
	case bytes.Contains(answer, []byte(`"allowed":false,"mode"`)):
		return Refused, nil
	}
	return Granted, nil
}

func (u *user) heartbeats(ctx context.Context) (Step, error) {
	body := []byte(`{"ids":[`)
	for i := range u.Batch {
		outcome, err := u.reserve(ctx)
		if err != nil || outcome == Refused {
			return nil, errors.Join(err, fmt.Errorf("heartbeats: hold %d of %d could not be made", i+1, u.Batch))
		}
		u.Kept.add(string(u.id))
		if i > 0 {
			body = append(body, ',')
		}
		body = fmt.Appendf(body, "%q", u.id)
	}
	body = append(append(body, `],`...), u.beat[1:]...)
	return func(ctx context.Context) (Outcome, error) {
		status, answer, err := u.conn.Post(ctx, "/v1/heartbeats", body)
		switch {
		case err != nil:
			return 0, err
		case !good(status):
			return 0, problem("heartbeats", status, answer)
		case bytes.Contains(answer, []byte(`"ok":false`)):
			return 0, fmt.Errorf("heartbeats: a hold was not extended: %.200q", answer)
		}
		return Granted, nil
	}, nil
}

func good(status int) bool { return status/100 == 2 }

var idMark = []byte(`"id":"rsv_`)

// reservationID finds the id in an answer without reading all of it: it is the only text there
// that begins like one.
func reservationID(answer []byte) []byte {
	i := bytes.Index(answer, idMark)
	if i < 0 {
		return nil
	}
	id := answer[i+len(`"id":"`):]
	end := bytes.IndexByte(id, '"')
	if end < 0 {
		return nil
	}
	return id[:end]
}

// problem says what a server answered, in few words, so that like failures count as one.
func problem(verb string, status int, answer []byte) error {
	var p api.Problem
	if json.Unmarshal(answer, &p) != nil || p.Code == "" {
		return fmt.Errorf("%s: status %d", verb, status)
	}
	return fmt.Errorf("%s: %d %s", verb, status, p.Code)
}
