package integration

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/api"
	"github.com/holdfast-dev/holdfast/auth"
)

// GUARANTEES 2 and 3. These tests are not parallel: what they assert is a deadline, which is
// the promise itself, and other tests of this package must not take the processor from it.

const (
	killedTTL   = 2 * time.Second
	killedSlack = time.Second // after T the slot is free this much later at most
	killedRuns  = 50
	killedBatch = 10
)

// ending is when one dead worker's slot came free, counted from the answer to its last call.
type ending struct {
	least, most time.Duration // it was seen held when least had passed, and free when most had
	promise     time.Duration // T counted from when the call was sent: it may not be free before
}

// CASES O01, FAULTS row 5, issue 4's promise: a worker dies by kill -9 and its slot is free
// between T and T + 1 s after the answer to its last extend.
func TestExpiry_KilledWorkersSlotIsFreeInTime(t *testing.T) {
	runs := killedRuns
	if testing.Short() {
		runs = killedBatch
	}
	root := dev(t).admin(t)
	root.limit(`{"name":"killed","subjectKind":"user","action":"killed","amount":1,"window":"concurrent"}`)
	root.limit(`{"name":"killed-units","subjectKind":"user","action":"killed","amount":100,"window":"total"}`)
	var all []ending
	for first := 0; first < runs; first += killedBatch {
		var mu sync.Mutex
		var batch sync.WaitGroup
		for n := first; n < first+killedBatch; n++ {
			batch.Go(func() {
				e, err := killOne(root, "w"+strconv.Itoa(n), 1+n%4)
				if err != nil {
					t.Errorf("run %d: %v", n, err)
				}
				mu.Lock()
				defer mu.Unlock()
				all = append(all, e)
			})
		}
		batch.Wait()
	}
	slices.SortFunc(all, func(x, y ending) int { return int(x.most - y.most) })
	var line strings.Builder
	for _, e := range all {
		fmt.Fprintf(&line, " %d", e.most.Milliseconds())
	}
	t.Logf("%d workers killed by -9, T = %s. Their slots were seen free after (ms):%s", len(all), killedTTL, line.String())
	root.noDrift()
}

// killOne is one run on a subject of its own. A run in which the worker died in the middle of a
// call is done again: nobody knows when its last extend was.
func killOne(root *caller, id string, calls int) (ending, error) {
	token, err := root.s.token(auth.Claims{Subject: id})
	if err != nil {
		return ending{}, err
	}
	own := *root
	own.token = token
	for try := 0; ; try++ {
		w, err := startWorker(orders{
			URL: root.s.run.URL, Token: token, TTL: killedTTL,
			Body: fmt.Sprintf(`{"action":"killed","cost":5,"ttlSeconds":%d}`, killedTTL/time.Second),
		})
		if err != nil {
			return ending{}, err
		}
		last, clean, err := w.killAfter(calls)
		if err != nil {
			return ending{}, err
		}
		if !clean && try < 5 {
			if err := pause(root.t.Context(), 2*killedTTL); err != nil {
				return ending{}, err
			}
			continue
		}
		e, next, err := watchEnd(&own, last)
		return e, errors.Join(err, e.kept(), settledOnce(root, last.ID, id, next))
	}
}

// kept says whether the promise was kept. That it was held too long is certain only from a
// refusal to a call made after the deadline; that it was free too early, from a grant answered
// before.
func (e ending) kept() error {
	var err error
	if e.most < e.promise {
		err = fmt.Errorf("free %s after the last answer, want no sooner than %s", e.most, e.promise)
	}
	if e.least >= killedTTL+killedSlack {
		err = errors.Join(err, fmt.Errorf("still held %s after the last answer, want %s at most", e.least, killedTTL+killedSlack))
	}
	return err
}

// watchEnd asks for the slot until it is granted, and tells to whom it was.
func watchEnd(c *caller, last report) (e ending, next api.Reservation, err error) {
	answered := time.Unix(0, last.Answered)
	e.promise = killedTTL - time.Duration(last.Answered-last.Sent)
	limit := time.Now().Add(generous)
	for time.Now().Before(limit) {
		asked := time.Since(answered)
		r, err := c.try(c.t.Context(), http.MethodPost, "/v1/reservations", `{"action":"killed","cost":5,"ttlSeconds":600}`)
		if err != nil {
			return e, next, err
		}
		switch r.status {
		case http.StatusCreated:
			e.most = time.Since(answered)
			next, err = decoded[api.Reservation](r)
			if err == nil && next.Fence <= last.Fence {
				err = fmt.Errorf("the new holder's fence is %d, the dead one's %d", next.Fence, last.Fence)
			}
			return e, next, err
		case http.StatusTooManyRequests:
			e.least = asked
		default:
			return e, next, fmt.Errorf("%s, want 201 or 429", r)
		}
		if err := pause(c.t.Context(), 20*time.Millisecond); err != nil {
			return e, next, err
		}
	}
	return e, next, fmt.Errorf("still held after %s", generous)
}

// settledOnce checks that the dead worker's record says expired, and that its charge came back
// once: what is used is the next holder's alone.
func settledOnce(c *caller, id, subject string, next api.Reservation) error {
	var dead api.Reservation
	r, err := c.try(c.t.Context(), http.MethodGet, "/v1/reservations/"+id, "")
	if err == nil {
		dead, err = decoded[api.Reservation](r)
	}
	if err != nil {
		return err
	}
	if dead.State != api.StateExpired || dead.Charged == nil || *dead.Charged != 0 || dead.Refunded == nil || *dead.Refunded != 5 {
		return fmt.Errorf("the dead worker's record: %s, want expired, charged 0, refunded 5", r)
	}
	r, err = c.try(c.t.Context(), http.MethodGet, "/v1/subjects/user/"+subject, "")
	if err != nil {
		return err
	}
	view, err := decoded[api.SubjectView](r)
	for _, v := range view.Limits {
		if v.ID == "killed-units" && v.Used != 5 {
			err = errors.Join(err, fmt.Errorf("%d units used, want the 5 of the new holder", v.Used))
		}
	}
	if len(view.Holds) != 1 || view.Holds[0].ID != next.ID {
		err = errors.Join(err, fmt.Errorf("holds of %s: %+v, want %s alone", subject, view.Holds, next.ID))
	}
	return err
}

const (
	massHolds = 2000
	massTTL   = 10 * time.Second
	massSlack = 3 * time.Second
	massCost  = 2
)

// Two thousand dead workers at once: all free within T + 3 s, each settled and refunded once.
func TestExpiry_TwoThousandTogether(t *testing.T) {
	notInShort(t)
	c := dev(t).admin(t)
	c.limit(`{"name":"mass","subjectKind":"user","action":"mass","amount":1,"window":"concurrent"}`)
	c.limit(`{"name":"mass-each","subjectKind":"user","action":"mass","amount":10,"window":"day","rolling":true}`)
	c.limit(fmt.Sprintf(`{"name":"mass-all","subjectKind":"user","action":"mass","amount":%d,"window":"total","share":"all"}`, massHolds*massCost))
	ids := massReserve(t, c)
	if u := every[api.UsageNow](c, "/v1/usage/now?limit=mass-all"); len(u) != 1 || u[0].Used != massHolds*massCost {
		t.Fatalf("mass-all before the end: %+v, want %d used", u, massHolds*massCost)
	}
	sent, answered := massExtend(t, c, ids)

	// All must end between T after the first was extended and T + 3 s after the last one's answer.
	falling := []int{massHolds} // what was held at each look that saw fewer
	for {
		asked := time.Now()
		n := len(every[api.UsageNow](c, "/v1/usage/now?pageSize=500&limit=mass"))
		if n < falling[len(falling)-1] {
			falling = append(falling, n)
		}
		if n < massHolds && time.Now().Before(sent.Add(massTTL)) {
			t.Fatalf("%d of %d are held after %s, want all until %s", n, massHolds, time.Since(sent), massTTL)
		}
		if n == 0 {
			break
		}
		if late := asked.Sub(answered.Add(massTTL)); late > massSlack {
			t.Fatalf("%d are held %s after T, want none after %s", n, late, massSlack)
		}
		until(t, time.Now().Add(50*time.Millisecond))
	}
	t.Logf("%d holds that ended together were all seen free %s after T; held until then: %v", massHolds, time.Since(answered.Add(massTTL)), falling)
	massSettled(t, c, ids)
	c.noDrift()
}

// massReserve makes the holds with a TTL that outlasts the making.
func massReserve(t *testing.T, c *caller) []string {
	t.Helper()
	ids := make([]string, massHolds)
	var clients sync.WaitGroup
	const each = massHolds / floodClients
	for client := range floodClients {
		clients.Go(func() {
			for n := client * each; n < (client+1)*each; n++ {
				body := fmt.Sprintf(`{"subject":{"kind":"user","id":"m%d"},"action":"mass","cost":%d,"ttlSeconds":%d}`, n, massCost, massTTL/time.Second)
				r, err := c.try(t.Context(), http.MethodPost, "/v1/reservations", body)
				if err != nil || r.status != http.StatusCreated {
					t.Errorf("%s, %v, want 201", r, err)
					return
				}
				hold, err := decoded[api.Reservation](r)
				if err != nil {
					t.Error(err)
				}
				ids[n] = hold.ID
			}
		})
	}
	clients.Wait()
	if t.Failed() {
		t.FailNow()
	}
	return ids
}

// massExtend lets all end together: four calls of POST /v1/heartbeats at once.
func massExtend(t *testing.T, c *caller, ids []string) (sent, answered time.Time) {
	t.Helper()
	sent = time.Now()
	var calls sync.WaitGroup
	for batch := range slices.Chunk(ids, api.MaxHeartbeats) {
		calls.Go(func() {
			body := fmt.Sprintf(`{"ids":["%s"],"ttlSeconds":%d}`, strings.Join(batch, `","`), massTTL/time.Second)
			r, err := c.try(t.Context(), http.MethodPost, "/v1/heartbeats", body)
			if err != nil {
				t.Error(err)
				return
			}
			a, err := decoded[api.HeartbeatAnswer](r)
			for _, one := range a.Results {
				if !one.OK {
					err = errors.Join(err, fmt.Errorf("%s: %w", one.ID, one.Problem))
				}
			}
			if err != nil || len(a.Results) != len(batch) {
				t.Errorf("heartbeats: %d results of %d, %v", len(a.Results), len(batch), err)
			}
		})
	}
	calls.Wait()
	if t.Failed() {
		t.FailNow()
	}
	return sent, time.Now()
}

// massSettled checks that each record ended once, and that all that was charged came back.
func massSettled(t *testing.T, c *caller, ids []string) {
	t.Helper()
	ended := map[string]bool{}
	for _, r := range every[api.Reservation](c, "/v1/reservations?pageSize=500&state=expired&action=mass") {
		if ended[r.ID] {
			t.Errorf("%s is listed twice", r.ID)
		}
		ended[r.ID] = true
		if r.Charged == nil || *r.Charged != 0 || r.Refunded == nil || *r.Refunded != massCost {
			t.Errorf("%s: %+v, want charged 0, refunded %d", r.ID, r, massCost)
		}
	}
	missing := slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return ended[id] })
	if len(missing) > 0 || len(ended) != massHolds {
		t.Errorf("%d records are expired, want %d; missing %d", len(ended), massHolds, len(missing))
	}
	for _, limit := range []string{"mass-each", "mass-all"} {
		for _, u := range every[api.UsageNow](c, "/v1/usage/now?pageSize=500&limit="+limit) {
			if u.Used != 0 {
				t.Errorf("%s: %+v, want 0 used", limit, u)
			}
		}
	}
}
