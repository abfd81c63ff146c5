package integration

import (
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/api"
	"github.com/holdfast-dev/holdfast/auth"
)

// GUARANTEES 1, 4 and 7: a thousand reservations at once against slots and two counting
// limits, one of them shared by all. Exactly what fits is granted, every count agrees to the
// last unit, and what is refused costs nothing anywhere.

const (
	floodClients  = 50
	floodRequests = 1000
	floodCost     = 3
)

// flood is one shape of it: amounts of the three limits, and which of them runs out.
type flood struct {
	slots, each, all int64
	subjects         int // 1: all clients are one subject; else each is one of its own
	grants           int64
	decides          string // the limit that refuses
}

const roomy = 1_000_000

// floods lets each of the three limits be the one that runs out, at 1, 3 and 64.
func floods() map[string]flood {
	out := map[string]flood{}
	for _, n := range []int64{1, 3, 64} {
		name := strconv.FormatInt(n, 10)
		out["slots "+name] = flood{slots: n, each: roomy, all: roomy, subjects: 1, grants: n, decides: "slots"}
		out["units "+name] = flood{slots: roomy, each: n*floodCost + 2, all: roomy, subjects: 1, grants: n, decides: "each"}
		out["units of all "+name] = flood{slots: roomy, each: roomy, all: n*floodCost + 2, subjects: floodClients, grants: n, decides: "all"}
	}
	return out
}

func TestFlood_ExactlyTheAmountAndRefusalsCostNothing(t *testing.T) {
	t.Parallel()
	s := dev(t)
	admin := s.admin(t)
	n := 0
	for name, f := range floods() {
		n++
		id := "f" + strconv.Itoa(n)
		t.Run(name, func(t *testing.T) { f.run(t, admin, id) }) // one after the other: they count the store's revisions
	}
}

func (f flood) run(t *testing.T, on *caller, id string) {
	root := *on
	root.t = t
	for limit, body := range map[string]string{
		"slots": fmt.Sprintf(`"amount":%d,"window":"concurrent"`, f.slots),
		"each":  fmt.Sprintf(`"amount":%d,"window":"day","rolling":true`, f.each),
		"all":   fmt.Sprintf(`"amount":%d,"window":"total","share":"all"`, f.all),
	} {
		root.limit(fmt.Sprintf(`{"name":"%s-%s","subjectKind":"user","action":"%s",%s}`, id, limit, id, body))
	}
	clients := f.clients(&root, id)
	granted := f.round(t, &root, clients, id)
	f.counts(t, &root, id, f.grants)
	fences := fencesOf(t, granted, nil)

	// All is given back, and the same amount fits again: nothing was lost to the refusals.
	for _, g := range granted {
		own := slices.IndexFunc(clients, func(c *client) bool { return c.subject == g.Subject.ID })
		if r := clients[own].act(g.ID, "release", ""); r.status != http.StatusOK {
			t.Fatalf("release: %s", r)
		}
	}
	f.counts(t, &root, id, 0)
	fencesOf(t, f.round(t, &root, clients, id), fences)
	f.counts(t, &root, id, f.grants)
	root.noDrift()
}

// client is one of the fifty: its own connections, and a token without any scope, so that it
// reserves for itself.
type client struct {
	*caller
	subject string
}

func (f flood) clients(root *caller, id string) []*client {
	clients := make([]*client, floodClients)
	for i := range clients {
		subject := id + "-" + strconv.Itoa(i%f.subjects)
		clients[i] = &client{callerOf(root.t, root.s, root.as(auth.Claims{Subject: subject}).token), subject}
	}
	return clients
}

// round sends all requests and checks every answer, and what they cost the store.
func (f flood) round(t *testing.T, root *caller, clients []*client, id string) []api.Reservation {
	t.Helper()
	body := fmt.Sprintf(`{"action":"%s","cost":%d,"ttlSeconds":600}`, id, floodCost)
	before, began := root.revision(), time.Now()
	var mu sync.Mutex
	var granted []api.Reservation
	var all sync.WaitGroup
	for _, c := range clients {
		all.Go(func() {
			for range floodRequests / floodClients {
				r, err := c.try(t.Context(), http.MethodPost, "/v1/reservations", body)
				if err != nil {
					t.Errorf("no answer: %v", err)
					return
				}
				if g, ok := f.judge(t, r, id); ok {
					mu.Lock()
					granted = append(granted, g)
					mu.Unlock()
				}
			}
		})
	}
	all.Wait()
	if got := int64(len(granted)); got != f.grants {
		t.Errorf("granted %d of %d requests, want exactly %d", got, floodRequests, f.grants)
	}
	// One revision a grant at most, the mark that tells once an hour of a limit that was exceeded,
	// and the replica's marker, which is put every two seconds.
	marker := int64(time.Since(began)/time.Second) + 3
	if moved := root.revision() - before; moved > f.grants+marker {
		t.Errorf("the store moved by %d revisions for %d grants, want at most %d: refusals must write nothing", moved, f.grants, f.grants+marker)
	}
	return granted
}

// judge checks one answer: a grant, or a refusal that names the limit that ran out.
func (f flood) judge(t *testing.T, r reply, id string) (api.Reservation, bool) {
	t.Helper()
	if r.status == http.StatusCreated {
		return read[api.Reservation](t, r, http.StatusCreated), true
	}
	code := api.QuotaExceeded
	if f.decides == "slots" {
		code = api.NoFreeSlot
	}
	p := read[api.Problem](t, r, http.StatusTooManyRequests)
	if want := id + "-" + f.decides; p.Code != code || p.DecidedBy != want {
		t.Errorf("%s: %s by %s, want %s by %s", r, p.Code, p.DecidedBy, code, want)
	}
	return api.Reservation{}, false
}

// counts compares every count of the three limits with what grants must have left there.
func (f flood) counts(t *testing.T, root *caller, id string, grants int64) {
	t.Helper()
	for limit, want := range map[string]int64{"slots": grants, "each": grants * floodCost, "all": grants * floodCost} {
		var sum int64
		for _, u := range every[api.UsageNow](root, "/v1/usage/now?limit="+id+"-"+limit) {
			sum += u.Used
			if u.Remaining != u.Amount-u.Used {
				t.Errorf("%s-%s: %+v: remaining is not amount less used", id, limit, u)
			}
		}
		if sum != want {
			t.Errorf("%s-%s: %d used in all, want %d", id, limit, sum, want)
		}
	}
	holds := every[api.Reservation](root, "/v1/reservations?pageSize=500&action="+id)
	if got := int64(len(holds)); got != grants {
		t.Errorf("%d holds are listed, want %d", got, grants)
	}
}

// fencesOf checks that no slot was given twice and that its fence is above the one before.
func fencesOf(t *testing.T, granted []api.Reservation, before map[string]int64) map[string]int64 {
	t.Helper()
	fences := map[string]int64{}
	for _, g := range granted {
		for _, s := range g.Slots {
			at := g.Subject.ID + "/" + s.Limit + "/" + strconv.FormatInt(s.Slot, 10)
			if other, taken := fences[at]; taken {
				t.Errorf("slot %s was given twice, with fences %d and %d", at, other, g.Fence)
			}
			if g.Fence <= before[at] {
				t.Errorf("slot %s: fence %d after %d", at, g.Fence, before[at])
			}
			fences[at] = g.Fence
		}
	}
	return fences
}

// A refusal changes nothing however often it is repeated, and previews neither.
func TestFlood_OfRefusalsAndPreviewsWritesNothing(t *testing.T) {
	t.Parallel()
	c := dev(t).admin(t)
	c.limit(`{"name":"r-slot","subjectKind":"user","action":"r","amount":1,"window":"concurrent"}`)
	c.limit(`{"name":"r-day","subjectKind":"user","action":"r","amount":10,"window":"day"}`)
	const ask = `{"subject":{"kind":"user","id":"u"},"action":"r","mode":"%s","cost":%d,"ttlSeconds":600}`
	c.check(fmt.Sprintf(ask, "reserve", 4))
	before, began := c.revision(), time.Now()
	var all sync.WaitGroup
	for _, body := range slices.Repeat([]string{
		fmt.Sprintf(ask, "reserve", 1), fmt.Sprintf(ask, "consume", 1), fmt.Sprintf(ask, "reserve", 7),
		fmt.Sprintf(ask, "reserve", 11), fmt.Sprintf(ask, "preview", 1), fmt.Sprintf(ask, "preview", 1000),
	}, 50) {
		all.Go(func() {
			// A key makes no difference: only what took effect is remembered.
			r, err := c.try(t.Context(), http.MethodPost, "/v1/checks", body, "Idempotency-Key", "k"+strconv.FormatUint(uint64(len(body)), 10))
			if err != nil {
				t.Error(err)
				return
			}
			if code := r.status; code != http.StatusOK && code != http.StatusConflict && code != http.StatusUnprocessableEntity {
				t.Errorf("%s, want a refusal", r)
			}
		})
	}
	all.Wait()
	const told = 2 // once an hour, that each of the two limits was exceeded
	marker := int64(math.Ceil(time.Since(began).Seconds())) + 1 + told
	if moved := c.revision() - before; moved > marker {
		t.Errorf("300 refusals and previews moved the store by %d revisions, want at most the marker's and the hourly marks' %d", moved, marker)
	}
	if day := c.used("r-day", "user", "u"); day.Used != 4 {
		t.Errorf("used %d of r-day, want the 4 of the one grant", day.Used)
	}
	c.noDrift()
}
