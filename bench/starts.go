package main

import (
	"context"
	"fmt"
	"strconv"
	"time"
)

// partSlot is how late a slot is granted again after its hold's end, one at a time, and how soon
// an empty development server answers.
func (r *rig) partSlot(ctx context.Context) error {
	var late, starts []float64
	for range max(r.rounds, 2) {
		dir, err := r.folder("dev")
		if err != nil {
			return err
		}
		s, took, err := r.startDev(ctx, dir)
		if err != nil {
			return err
		}
		starts = append(starts, took.Seconds())
		d, err := again(ctx, s)
		s.stop()
		if err != nil {
			return err
		}
		r.say("started in %.2f s; the slot was granted again %.1f ms after its end", took.Seconds(), d.Seconds()*1000)
		late = append(late, d.Seconds()*1000)
	}
	r.found["slot"], r.found["start empty"] = once(late...), once(starts...)
	return nil
}

// startDev starts a development server and takes the time to its first answer to a check.
func (r *rig) startDev(ctx context.Context, dir string) (*server, time.Duration, error) {
	began := now()
	s, err := r.dev(ctx, dir)
	if err != nil {
		return nil, 0, err
	}
	body := map[string]any{"subject": map[string]string{"kind": kind, "id": "first"}, "action": "both", "mode": "preview"}
	if err := s.call(ctx, "/v1/checks", body, nil); err != nil {
		s.stop()
		return nil, 0, err
	}
	return s, now().Sub(began), nil
}

// again takes the only slot of a limit, lets it run out, and asks until it is granted again. The
// time is counted from the end as it was promised: the moment the reserve was sent, and its TTL.
func again(ctx context.Context, s *server) (time.Duration, error) {
	body := []byte(`{"subject":{"kind":"user","id":"again"},"action":"single","ttlSeconds":2}`)
	conn := s.end.Conn()
	defer conn.Close()
	sent := now()
	status, answer, err := conn.Post(ctx, "/v1/reservations", body)
	if err != nil || status != 201 {
		return 0, fmt.Errorf("the first hold: %d %.200s %w", status, answer, err)
	}
	end := sent.Add(shortHold)
	for now().Before(end.Add(endsWithin)) {
		status, answer, err = conn.Post(ctx, "/v1/reservations", body)
		switch {
		case err != nil:
			return 0, err
		case status == 201:
			return now().Sub(end), nil
		case status != 429:
			return 0, fmt.Errorf("asking for the slot: %d %.200s", status, answer)
		}
		<-time.After(time.Millisecond)
	}
	return 0, fmt.Errorf("the slot was not granted again within %s", endsWithin)
}

// restarts starts from databases of growing size.
func (r *rig) restarts(ctx context.Context, s **server, dir string) error {
	t := table{title: "Start of `dev` to its first answer, by what its database holds", header: []string{"live holds (TTL 1 h)", "seconds"}}
	var last time.Duration
	made := 0
	for _, n := range []int{r.many / 10, r.many} {
		if _, err := r.manyHolds(ctx, *s, fmt.Sprintf("r%d-", n), n-made, time.Hour); err != nil {
			return err
		}
		made = n
		(*s).stop()
		next, took, err := r.startDev(ctx, dir)
		if err != nil {
			return err
		}
		*s, last = next, took
		if live := next.value(ctx, "holdfast_holds"); int(live) < n {
			r.note("after a restart %d holds were live, want %d", int(live), n)
		}
		r.say("with %d holds: started in %.2f s", n, took.Seconds())
		t.rows = append(t.rows, []string{strconv.Itoa(n), two(took.Seconds())})
	}
	r.tables = append(r.tables, t)
	r.found["start full"] = once(last.Seconds())
	return nil
}
