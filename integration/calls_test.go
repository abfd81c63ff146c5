package integration

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-dev/holdfast/lease"
	"github.com/holdfast-dev/holdfast/reserve"
	"github.com/holdfast-dev/holdfast/store"
)

// DESIGN.md sections 2 and 4, STYLE.md checklist 9 and 12: what each verb costs the store. The
// real store, wheel and desk on an embedded etcd, with every call between them counted. The marker's
// calls are kept apart: they wait while something is measured, and its leases are those asked
// for with lease.MarkerTTL, which no hold's lease can be (a hold lasts 2 s at least, its lease
// lease.Surplus more).

const together = 64

// cost is what a stretch of work cost.
type cost struct {
	txns, reads int // calls of the store
	entries     int // raft entries, without the marker's
	ends        int // how many of these may be etcd's own: leases that ran out meanwhile
	grants      int // leases, without the marker's
}

// raft is the index of the last entry committed. Nothing but this replica and etcd's own lessor
// writes. It is not the index applied: that one is told a little later than the answer.
func (c *counted) raft(t *testing.T) int {
	t.Helper()
	status, err := c.client.Status(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	return int(status.RaftIndex)
}

// grants splits the leases granted into holds' and the marker's.
func (c *counted) grants() (holds, marker int) {
	for _, ttl := range c.leases.TTLs() {
		if isMarkers(ttl) {
			marker++
		} else {
			holds++
		}
	}
	return holds, marker
}

// measure does work n times at once and counts what it cost, without what prepare did.
func (c *counted) measure(t *testing.T, n int, prepare func(n int) []reserve.HoldRef, work func(i int, h reserve.HoldRef) error) cost {
	t.Helper()
	holds := prepare(n)
	c.still.Lock()
	defer c.still.Unlock()
	alive, before := c.alive(t), c.raft(t)
	granted, _ := c.grants()
	c.calls.reads.Reset()
	c.calls.writes.Reset()
	atOnce(n, func(i int) {
		if err := work(i, holds[i]); err != nil {
			t.Error(err)
		}
	})
	grants, _ := c.grants()
	k := cost{
		txns: c.calls.writes.Calls().All(), reads: c.calls.reads.Calls().All(),
		entries: c.raft(t) - before, grants: grants - granted,
	}
	still := c.alive(t)
	for id := range alive {
		if !still[id] {
			k.ends++
		}
	}
	return k
}

// alive are the leases of the store.
func (c *counted) alive(t *testing.T) map[clientv3.LeaseID]bool {
	t.Helper()
	resp, err := c.client.Leases(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ids := map[clientv3.LeaseID]bool{}
	for _, l := range resp.Leases {
		ids[l.ID] = true
	}
	return ids
}

// entriesAre reports whether entries are want, but for those of leases that ran out meanwhile.
func (k cost) entriesAre(want int) bool { return k.entries >= want && k.entries <= want+k.ends }

// verbs are the rows of the table, in order. Counts that nobody has asked for yet are guessed to
// be absent, not read. A refusal always reads, linearizably, which is no entry; that a limit was
// exceeded is told by the first one of an hour (ADR 31), which is before what is measured.
var verbs = []string{"reserve, new subject", "reserve", "extend", "commit", "release", "refusal"}

func TestCalls_TransactionsAndEntriesOfEachVerb(t *testing.T) {
	t.Parallel()
	c := newCounted(t, countedLimits(1)...)
	ctx := t.Context()
	next, first := 0, 0
	fresh := func(n int) []reserve.HoldRef { // subjects that nobody has used yet
		first, next = next, next+n
		return make([]reserve.HoldRef, n)
	}
	grant := func(i int, _ reserve.HoldRef) error {
		_, err := c.grant(ctx, first+i, time.Minute)
		return err
	}
	held := func(n int) []reserve.HoldRef {
		holds := fresh(n)
		for i := range holds {
			var err error
			if holds[i], err = c.grant(ctx, first+i, time.Minute); err != nil {
				t.Fatal(err)
			}
		}
		return holds
	}
	known := func(n int) []reserve.HoldRef { // subjects whose counts are known and whose slot is free
		holds := held(n)
		for _, h := range holds {
			if _, err := c.Commit(ctx, h, 1); err != nil {
				t.Fatal(err)
			}
		}
		return holds
	}
	told := func(n int) []reserve.HoldRef { // subjects whose limits were told as exceeded within the hour
		holds := held(n)
		for i := range holds {
			if err := c.refused(ctx, first+i); err != nil {
				t.Fatal(err)
			}
		}
		c.marked(t, n)
		return holds
	}
	held(1) // one before all others: the lease that they share is granted
	table := map[string][2]cost{}
	for i, n := range []int{1, together} {
		for verb, row := range map[string]struct {
			prepare func(int) []reserve.HoldRef
			work    func(int, reserve.HoldRef) error
		}{
			"reserve, new subject": {fresh, grant},
			"reserve":              {known, grant},
			"extend":               {held, func(_ int, h reserve.HoldRef) error { _, err := c.Extend(ctx, h, 2*time.Minute); return err }},
			"commit":               {held, func(_ int, h reserve.HoldRef) error { _, err := c.Commit(ctx, h, 2); return err }},
			"release":              {held, func(_ int, h reserve.HoldRef) error { _, err := c.Release(ctx, h, ""); return err }},
			"refusal":              {told, func(i int, _ reserve.HoldRef) error { return c.refused(ctx, first+i) }},
		} {
			both := table[verb]
			both[i] = c.measure(t, n, row.prepare, row.work)
			table[verb] = both
		}
	}
	t.Log("\n" + render(table))
	for _, verb := range verbs {
		judgeCalls(t, verb, table[verb][0], table[verb][1])
	}
	c.noRevokes(t)
}

func judgeCalls(t *testing.T, verb string, alone, many cost) {
	t.Helper()
	if verb == "refusal" {
		for _, r := range []cost{alone, many} {
			if r.txns != 0 || !r.entriesAre(0) || r.grants != 0 || r.reads < 1 {
				t.Errorf("%s: %+v, want no write, and a fresh read", verb, r)
			}
		}
		return
	}
	if alone.txns != 1 || !alone.entriesAre(1+alone.grants) || alone.reads != 0 {
		t.Errorf("%s alone: %+v, want one transaction, one entry, no read", verb, alone)
	}
	if many.txns >= together || many.txns < 1 || !many.entriesAre(many.txns+many.grants) || many.reads > together {
		t.Errorf("%d of %s together: %+v, want fewer transactions, each one entry", together, verb, many)
	}
	if alone.grants > 1 || many.grants > 2 { // two when a deadline of the wheel passes meanwhile
		t.Errorf("%s: %d and %d leases granted, want one at most, and two", verb, alone.grants, many.grants)
	}
}

// marked waits until n more limits are told as exceeded, each by its mark in the store.
func (c *counted) marked(t *testing.T, n int) {
	t.Helper()
	c.marks += int64(n)
	for began := time.Now(); ; until(t, time.Now().Add(10*time.Millisecond)) {
		resp, err := c.client.Get(t.Context(), store.DefaultRoot+"t/default/marks/", clientv3.WithPrefix(), clientv3.WithCountOnly())
		switch {
		case err != nil:
			t.Fatal(err)
		case resp.Count == c.marks:
			return
		case time.Since(began) > generous:
			t.Fatalf("%d limits are told as exceeded after %s, want %d", resp.Count, generous, c.marks)
		}
	}
}

// refused asks for a slot that is taken.
func (c *counted) refused(ctx context.Context, n int) error {
	_, d, err := c.Reserve(ctx, request(n))
	if err == nil && d.Allowed {
		err = fmt.Errorf("a second hold of the one slot of subject %d", n)
	}
	return err
}

// atOnce runs act n times at the same time and waits for all.
func atOnce(n int, act func(i int)) {
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { act(i) })
	}
	all.Wait()
}

func render(table map[string][2]cost) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-22s %32s   %32s\n", "", "one alone", strconv.Itoa(together)+" together")
	fmt.Fprintf(&b, "%-22s %32s   %32s\n", "verb", "txns reads entries leases", "txns reads entries leases")
	for _, verb := range verbs {
		fmt.Fprintf(&b, "%-22s", verb)
		for _, c := range table[verb] {
			fmt.Fprintf(&b, " %13d %5d %7d %6d ", c.txns, c.reads, c.entries, c.grants)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func (c *counted) noRevokes(t *testing.T) {
	t.Helper()
	if k := c.leases.Calls(); k.Revoke+k.KeepAlive+k.KeepAliveOnce > 0 {
		t.Errorf("leases: %+v, want never a revoke nor a keep-alive", k)
	}
}

// STYLE.md checklist 12, CASES O23 in small: at most one lease is granted for 1,000 holds or
// two seconds; when all has ended nothing is left but what is kept on purpose.
func TestCalls_LeasesAreSharedAndNothingIsLeft(t *testing.T) {
	t.Parallel()
	c := newCounted(t, countedLimits(1)...)
	ctx := t.Context()
	const subjects = 3000
	holds := make([]reserve.HoldRef, subjects)
	each := func(act func(n int) error) {
		atOnce(together, func(client int) {
			for n := client; n < subjects; n += together {
				if err := act(n); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	began := time.Now()
	each(func(n int) (err error) {
		holds[n], err = c.grant(ctx, n, time.Minute)
		return err
	})
	took := time.Since(began)
	granted, marker := c.grants()
	// A subject's counts are on no lease here: a limit of the window "total" is among them.
	most := subjects/lease.KeysPerLease + int(took/lease.MinGrain) + 1
	t.Logf("%d holds in %s: %d leases for their keys (%d at most), %d for the marker", subjects, took.Round(time.Millisecond), granted, most, marker)
	if granted > most {
		t.Errorf("%d leases for %d holds in %s, want %d at most", granted, subjects, took, most)
	}
	each(func(n int) error {
		_, err := c.Release(ctx, holds[n], "")
		return err
	})

	// Ten that are extended again and again make no lease each time.
	var ten []reserve.HoldRef
	for n := range 10 {
		h, err := c.grant(ctx, subjects+n, 30*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		ten = append(ten, h)
	}
	before, _ := c.grants()
	extending := time.Now()
	for range 60 {
		for _, h := range ten {
			if _, err := c.Extend(ctx, h, 30*time.Second); err != nil {
				t.Fatal(err)
			}
		}
	}
	after, _ := c.grants()
	if most := int(time.Since(extending)/lease.MinGrain) + 2; after-before > most {
		t.Errorf("600 extends in %s: %d leases granted, want %d at most", time.Since(extending), after-before, most)
	}
	for _, h := range ten {
		if _, err := c.Release(ctx, h, ""); err != nil {
			t.Fatal(err)
		}
	}
	c.emptied(t)
	c.noRevokes(t)
}

// emptied waits until no slot, no hold and no open record is left, and looks at the leases.
func (c *counted) emptied(t *testing.T) {
	t.Helper()
	left := map[string]int64{}
	for limit := time.Now().Add(generous); ; {
		sum := int64(0)
		for _, family := range []string{"slots/", "holds/", "open/"} {
			resp, err := c.client.Get(t.Context(), store.DefaultRoot+"t/default/"+family, clientv3.WithPrefix(), clientv3.WithCountOnly())
			if err != nil {
				t.Fatal(err)
			}
			left[family] = resp.Count
			sum += resp.Count
		}
		if sum == 0 {
			break
		}
		if time.Now().After(limit) {
			t.Fatalf("left in the store: %v, want nothing", left)
		}
		until(t, time.Now().Add(50*time.Millisecond))
	}
	if n := len(c.alive(t)); n >= 50 {
		t.Errorf("%d leases are alive, want under 50", n)
	}
}
