package reserve_test

import (
	"fmt"
	"math"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-dev/holdfast/limits"
	"github.com/holdfast-dev/holdfast/reserve"
	"github.com/holdfast-dev/holdfast/windows"
)

// witness looks at every revision of the keyspace and remembers what clients were told.
// It knows the promises (GUARANTEES.md section 1) and none of the code that keeps them.
type witness struct {
	mu       sync.Mutex
	err      error
	rev      int64
	amounts  map[string]int64
	slots    map[reserve.Ref]*reserve.Slot
	held     map[reserve.Ref]int64 // by limit and scope
	fullAt   map[reserve.Ref]int64 // last revision at which it was full
	open     map[reserve.ID]*reserve.Record
	ended    map[reserve.ID]*reserve.Record
	closed   map[reserve.ID]bool // its open record goes in this revision
	usage    map[reserve.Ref]reserve.Counts
	promises map[reserve.ID]time.Time // not to be ended before
	left     map[reserve.ID]bool      // its owner has begun to settle it
	story    map[reserve.ID][]string  // of each hold, for the failure message
	total    map[string]int64         // by scope: what the records say the limit "total" counts
	tickets  map[reserve.Ref]*reserve.Ticket
	waited   int // grants to somebody who stood in line
}

func newWitness() *witness {
	return &witness{
		amounts: map[string]int64{}, slots: map[reserve.Ref]*reserve.Slot{}, held: map[reserve.Ref]int64{},
		fullAt: map[reserve.Ref]int64{}, open: map[reserve.ID]*reserve.Record{}, ended: map[reserve.ID]*reserve.Record{},
		usage: map[reserve.Ref]reserve.Counts{}, promises: map[reserve.ID]time.Time{}, left: map[reserve.ID]bool{},
		closed: map[reserve.ID]bool{}, tickets: map[reserve.Ref]*reserve.Ticket{}, total: map[string]int64{}, story: map[reserve.ID][]string{},
	}
}

func (w *witness) verdict() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

func (w *witness) object(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.say(format, args...)
}

func (w *witness) say(format string, args ...any) {
	if w.err == nil {
		w.err = fmt.Errorf("at revision %d: %s", w.rev, fmt.Sprintf(format, args...))
	}
}

func (w *witness) revision() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.rev
}

func setOf(r reserve.Ref) reserve.Ref {
	r.N = 0
	return r
}

// record takes in one revision.
func (w *witness) record(rev int64, puts []reserve.Entry, deletes []reserve.Deleted) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rev = rev
	clear(w.closed)
	w.watchLines(puts, deletes)
	for _, d := range deletes {
		w.deleted(d, puts)
	}
	for _, e := range puts {
		if l, ok := e.Value.(*limits.Limit); ok {
			w.amounts[l.ID] = l.Amount
		}
	}
	for _, e := range puts {
		w.put(e)
	}
	w.compare(puts, deletes)
	for set, n := range w.held {
		if n >= w.amounts[set.Limit] {
			w.fullAt[set] = rev
		}
	}
	for ref := range w.tickets { // who stands in line is in the way as well
		ref.Kind = reserve.RefSlot
		w.fullAt[setOf(ref)] = rev
	}
}

// watchLines objects to a grant that goes before somebody who stood in the line of a limit it
// spends from, and was there before this revision and after it.
func (w *witness) watchLines(puts []reserve.Entry, deletes []reserve.Deleted) {
	ranks := map[reserve.ID]int64{}
	for _, d := range deletes {
		if t := w.tickets[d.Ref]; t != nil {
			w.tell(t.ID, "place %d in the line of %s/%s given up", d.Ref.N, d.Ref.Limit, d.Ref.Scope)
			ranks[t.ID] = d.Ref.N
			delete(w.tickets, d.Ref)
		}
	}
	for _, e := range puts {
		if rec, ok := e.Value.(*reserve.Record); ok && e.Ref.Kind == reserve.RefOpen && rec.State == reserve.Held {
			w.overtakes(rec, ranks)
		}
	}
	for _, e := range puts {
		if t, ok := e.Value.(*reserve.Ticket); ok {
			w.tickets[e.Ref] = t
			w.tell(t.ID, "place %d in the line of %s/%s taken: replica %s, away %v", e.Ref.N, e.Ref.Limit, e.Ref.Scope, t.Replica, t.Away)
			if e.Lease == 0 {
				w.say("ticket %+v hangs on no lease", e.Ref)
			}
		}
	}
}

func (w *witness) overtakes(rec *reserve.Record, ranks map[reserve.ID]int64) {
	rank, waited := ranks[rec.ID]
	if waited {
		w.waited++
	} else {
		rank = math.MaxInt64
	}
	for ref, t := range w.tickets {
		in := func(limit, scope string) bool { return ref.Limit == limit && ref.Scope == scope && ref.N < rank }
		for _, p := range rec.Places {
			if in(p.Limit, p.Scope) {
				w.say("%v (rank %d) is granted a slot of %s before %v with rank %d; they are told:\n\t%s\n\n\t%s", rec.ID, rank, p.Limit, t.ID, ref.N,
					strings.Join(w.story[rec.ID], "\n\t"), strings.Join(w.story[t.ID], "\n\t"))
			}
		}
		for _, c := range rec.Charges {
			if in(c.Limit, c.Scope) {
				w.say("%v (rank %d) is charged under %s before %+v with rank %d", rec.ID, rank, c.Limit, t, ref.N)
			}
		}
	}
}

// tell adds a line to the story of a hold.
func (w *witness) tell(id reserve.ID, format string, args ...any) {
	w.story[id] = append(w.story[id], fmt.Sprintf("%s rev %d: ", time.Now().Format("04:05.000"), w.rev)+fmt.Sprintf(format, args...))
}

func (w *witness) put(e reserve.Entry) {
	switch v := e.Value.(type) {
	case *reserve.Slot:
		w.tell(v.Hold, "slot %s/%d put: ttl %v, beat %d, lease %d", e.Ref.Limit, e.Ref.N, v.TTL, v.Beats, e.Lease)
		if e.Ref.Kind != reserve.RefSlot {
			return
		}
		if was := w.slots[e.Ref]; was != nil {
			if was.Hold != v.Hold {
				w.say("slot %+v: put for %v over %v", e.Ref, v.Hold, was.Hold)
			}
			w.slots[e.Ref] = v
			return
		}
		w.slots[e.Ref] = v
		set := setOf(e.Ref)
		if w.held[set]++; w.held[set] > w.amounts[e.Ref.Limit] {
			w.say("%s: %d held of %d", e.Ref.Limit, w.held[set], w.amounts[e.Ref.Limit])
		}
		if e.Lease == 0 {
			w.say("slot %+v hangs on no lease", e.Ref)
		}
	case *reserve.Record:
		w.putRecord(e.Ref, v)
	case reserve.Counts:
		w.usage[e.Ref] = v
	}
}

func (w *witness) putRecord(r reserve.Ref, v *reserve.Record) {
	w.tell(v.ID, "record put, open %v: %v, keyed %v, made at %s", r.Kind == reserve.RefOpen, v.State, v.Keyed, v.CreatedAt.Format("04:05.000"))
	switch {
	case r.Kind == reserve.RefOpen && v.State == reserve.Held:
		if was := w.ended[v.ID]; was != nil && was.State == reserve.Aborted {
			delete(w.ended, v.ID) // granted to nobody: as if it had never been
		}
		if w.open[v.ID] != nil || w.ended[v.ID] != nil {
			w.say("%v is made twice; it is told:\n\t%s", v.ID, strings.Join(w.story[v.ID], "\n\t"))
		}
		w.open[v.ID] = v
		w.total[v.Subject.Scope()] += v.Cost
	case r.Kind == reserve.RefEnded && v.State == reserve.Aborted && !w.closed[v.ID]:
		w.ended[v.ID] = v // a mark: an attempt of unknown outcome can never be one any more
	case r.Kind == reserve.RefEnded:
		if w.ended[v.ID] != nil {
			w.say("%v is settled twice: %v, then %v", v.ID, w.ended[v.ID].State, v.State)
		}
		w.ended[v.ID] = v
		w.total[v.Subject.Scope()] += v.Charged - v.Cost
	}
}

func (w *witness) deleted(d reserve.Deleted, puts []reserve.Entry) {
	switch d.Ref.Kind {
	case reserve.RefSlot:
		s := w.slots[d.Ref]
		if s == nil {
			return
		}
		delete(w.slots, d.Ref)
		w.tell(s.Hold, "slot %s/%d deleted", d.Ref.Limit, d.Ref.N)
		w.held[setOf(d.Ref)]--
		if end, ok := w.promises[s.Hold]; ok && !w.left[s.Hold] && time.Now().Before(end) {
			how := "its lease"
			for _, e := range puts {
				if rec, ok := e.Value.(*reserve.Record); ok && rec.ID == s.Hold {
					how = rec.State.String()
				}
			}
			w.say("%v ended %v early, by %s; it is told:\n\t%s", s.Hold, time.Until(end), how, strings.Join(w.story[s.Hold], "\n\t"))
		}
	case reserve.RefOpen:
		w.tell(d.Ref.ID, "open record deleted")
		w.closed[d.Ref.ID] = true
		delete(w.open, d.Ref.ID)
	case reserve.RefUsage:
		delete(w.usage, d.Ref)
	}
}

// compare checks what must agree at every revision.
func (w *witness) compare(puts []reserve.Entry, deletes []reserve.Deleted) {
	touched := len(deletes) > 0
	for _, e := range puts {
		touched = touched || e.Ref.Kind == reserve.RefUsage || e.Ref.Kind == reserve.RefEnded || e.Ref.Kind == reserve.RefSlot
	}
	if !touched {
		return
	}
	for ref, s := range w.slots {
		if w.open[s.Hold] == nil {
			w.say("slot %+v is held by %v, which has no open record", ref, s.Hold)
		}
	}
	for _, subject := range []string{"user/u_42", "user/u_7"} {
		cs := w.usage[reserve.Ref{Tenant: tenant, Kind: reserve.RefUsage, Scope: subject}]
		var total int64
		for _, c := range cs {
			var sum int64
			for _, n := range c.Use.Counts {
				sum += n.Cost
			}
			switch c.Limit {
			case "total":
				total = sum
			case "rolling":
				w.rolling(c.Use)
			}
		}
		if total != w.total[subject] {
			w.say("%s: counted %d, the records say %d", subject, total, w.total[subject])
		}
	}
}

// overCommitted is what commits above their estimate may add to a window (overage: record):
// each of the acts of the model may use up to 3 where 1 was charged.
const overCommitted = 2 * 40

func (w *witness) rolling(u windows.Usage) {
	for i := range u.Counts {
		var sum int64
		for _, n := range u.Counts[i:] {
			if n.Slice-u.Counts[i].Slice < 60 {
				sum += n.Cost
			}
		}
		if sum > 40+overCommitted {
			w.say("rolling: %d within one window of 40", sum)
		}
	}
}

// promised notes that a hold may not end before invoked + ttl; drift is allowed for.
func (w *witness) promised(id reserve.ID, invoked time.Time, ttl time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tell(id, "answered: %v from %s", ttl, invoked.Format("04:05.000"))
	end := invoked.Add(ttl - ttl/mostDrift - time.Millisecond)
	if end.After(w.promises[id]) {
		w.promises[id] = end
	}
}

func (w *witness) leaving(id reserve.ID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.left[id] = true
}

// refused looks for an instant since the call at which the limit really was full.
func (w *witness) refused(s limits.Subject, d reserve.Decision, rev int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, v := range d.Verdicts {
		if v.Why != reserve.NoSlot {
			continue
		}
		set := reserve.Ref{Tenant: tenant, Kind: reserve.RefSlot, Limit: v.Rule.ID, Scope: v.Scope}
		if w.held[set] < w.amounts[v.Rule.ID] && w.fullAt[set] < rev {
			w.say("%v was refused by %s, which was not full since revision %d (last at %d); %d stood in line", s, v.Rule.ID, rev, w.fullAt[set], d.Waiting)
		}
	}
}

// atRest checks that nothing is left when every hold must have ended.
func (w *witness) atRest() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for ref, s := range w.slots {
		w.say("slot %+v is still held by %v", ref, s.Hold)
	}
	for ref, t := range w.tickets {
		w.say("ticket %+v still stands: %+v", ref, t)
	}
	for id, rec := range w.open {
		w.say("record %v (%+v) is still open", id, rec)
	}
}
