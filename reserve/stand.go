package reserve

import (
	"slices"
	"time"
)

// Bounds of lines.
const (
	MaxLine    = 1_000            // callers in the line of one limit within one scope
	MaxWaiters = 10_000           // callers that wait at one replica
	MaxWait    = time.Minute      // of one call
	Lingers    = 10 * time.Second // the place of a caller that is away, when it belongs to a key
)

// lineOf is the line of the i-th limit that judges the check.
func (a *asking) lineOf(i int) lineName {
	return lineName{a.Tenant, a.ss[i].rule.ID, a.ss[i].scope}
}

// linesUp says whether the i-th limit has a line that counts for the check: it is enforced, and
// the check spends from it.
func (a *asking) linesUp(i int) bool {
	return !a.ss[i].rule.Shadow && (a.sets[i].isSet() || a.Cost > 0)
}

// stands is the check's own ticket, nil when it has none. A place under a key is its key's,
// whoever repeats it; one whose caller waits elsewhere is that one's.
func (a *asking) stands(f *fold) (own *ticketAt, err error) {
	if !a.waits && a.Key == "" || len(f.p.lines.byID) == 0 {
		return nil, nil
	}
	own = f.p.lines.byID[holdKey{a.Tenant, a.id}]
	switch {
	case own == nil:
	case own.ticket.Body != a.digest:
		return nil, ErrMismatch
	case own.ticket.Replica != a.replica && !own.ticket.Away:
		return nil, ErrInFlight
	}
	return own, nil
}

// queues says whether a refusal is to be waited out: the check waits, and it may yet be granted.
func (a *asking) queues(d *Decision) bool {
	return a.waits && !a.last && d.Block == nil && d.Binding >= 0 && d.Verdicts[d.Binding].Why != NeverFits
}

// stand puts the check into the line of the limit that refuses it. One that stands in a line
// whose limit still refuses it stays there; else it moves, and keeps its rank, which is its age:
// so it blocks nobody where it could go, and is nobody's newcomer. Several limits are taken
// together or not at all, so no circle of waits can form.
func (a *asking) stand(f *fold, j *job, d Decision, own *ticketAt) move {
	i := d.Binding
	if own != nil {
		for k := range d.Verdicts {
			if d.Verdicts[k].refuses() && a.lineOf(k) == lineKey(own.ref) {
				i = k
			}
		}
		if a.lineOf(i) == lineKey(own.ref) && !own.ticket.Away && own.ticket.Replica == a.replica {
			return answer(result{dec: d, queued: true})
		}
	}
	ref, room, end := a.place(f, j, a.lineOf(i), own)
	if !room {
		a.countWaiting(f, &d, own)
		return j.refuse(f, result{err: &LineFullError{Decision: d}}, j.touches)
	}
	if j.full || a.noSpace {
		return fail(ErrFull)
	}
	dr := f.newDraft(AnyCatalog, j.touches)
	t := &Ticket{
		ID: a.id, Replica: a.replica, Subject: a.Subject, Action: a.Action, Cost: a.Cost, Principal: a.Principal, Owner: a.Owner,
		Since: j.start.Round(0).Truncate(time.Millisecond), Until: a.until.Round(0).Truncate(time.Millisecond),
		Keyed: a.Key != "", Body: a.digest,
	}
	if own != nil {
		t.Since = own.ticket.Since
		dr.guard(own.ref, ModIs, own.mod)
	}
	if own == nil || own.ref != ref {
		dr.guard(ref, ModIs, 0)
	}
	if own != nil && own.ref != ref {
		dr.drop(own.ref)
	}
	dr.put(Write{Ref: ref, Value: t, Session: true})
	if end {
		f.guardEnd(dr, a.sets[i], ref)
	}
	dr.bytes = a.size()
	j.mark, j.blind = nil, false
	j.finish = func(int64) result { return result{dec: d, queued: true} }
	return change(dr)
}

// place is where the check is to stand in the line of k; room is false when that is full.
// A newcomer goes to the end; end says that it must be seen to be the end: this replica may be
// behind, and its clock too. Ranks are microseconds of the wall clock, or one more than the
// last: they rise along each line whatever the clocks say, and are about as old in one line as
// in another, which whoever moves relies on.
func (a *asking) place(f *fold, j *job, k lineName, own *ticketAt) (r Ref, room, end bool) {
	r = Ref{Tenant: k.tenant, Kind: RefTicket, Limit: k.limit, Scope: k.scope}
	l, fl := f.p.lines.of(k), f.lines[k]
	n, last := 0, int64(0)
	if l != nil && len(l.tickets) > 0 {
		n, last = len(l.tickets), l.tickets[len(l.tickets)-1].ref.N
	}
	taken := func(rank int64) bool {
		there := false
		if l != nil {
			_, there = l.find(rank)
		}
		return there || fl != nil && slices.Contains(fl.puts, rank)
	}
	if fl != nil && len(fl.puts) > 0 {
		n, last = n+len(fl.puts), max(last, slices.Max(fl.puts))
	}
	switch {
	case own != nil && lineKey(own.ref) == k:
		return own.ref, true, false
	case own != nil:
		for r.N = own.ref.N; taken(r.N); r.N++ {
		}
		return r, true, false // who has waited elsewhere is not turned away
	case n >= MaxLine || a.crowded:
		return r, false, false
	}
	if j.sent && a.tried.N > 0 && lineKey(a.tried) == k && !taken(a.tried.N) {
		return a.tried, true, false // an attempt whose outcome is not known may still take effect there
	}
	r.N = max(last+1, j.start.UnixMicro())
	a.tried = r
	return r, true, true
}

// pass compares, for every limit that the check spends from, that nobody stands in its line
// before it, and takes its own ticket away: in the very transaction that grants.
//
// While the tenant has no line at all, that is compared once for all such requests of a batch;
// one that lost by it, so that it is sure, compares its own lines (ADR 22).
func (a *asking) pass(f *fold, dr *draft, own *ticketAt, sure bool) {
	if !sure && f.p.lines.tenants[a.Tenant] == 0 {
		for i := range a.ss {
			dr.noLine = dr.noLine || a.linesUp(i)
		}
		return
	}
	rank := newcomer
	if own != nil {
		rank = own.ref.N
		dr.guard(own.ref, ModIs, own.mod)
		dr.drop(own.ref)
	}
	for i := range a.ss {
		if a.linesUp(i) {
			f.guardLine(dr, a.sets[i], a.lineOf(i), rank)
		}
	}
}

// passed has a grant at rev looked at for whom it overtook.
func (a *asking) passed(p *picture, own *ticketAt, rev int64) {
	if len(p.lines.byScope) == 0 {
		return
	}
	rank := newcomer
	if own != nil {
		rank = own.ref.N
	}
	for i := range a.ss {
		if a.linesUp(i) {
			p.lines.passed(a.lineOf(i), rank, rev)
		}
	}
}

// joinsHere says whether somebody joins a line of the check's in this very batch.
func (a *asking) joinsHere(f *fold) bool {
	if len(f.lines) == 0 {
		return false
	}
	for i := range a.ss {
		if f.joined(a.lineOf(i)) {
			return true
		}
	}
	return false
}

// countWaiting says of each limit how many others stand in its line, and of the decision how
// many do in that of the limit that refuses most strictly.
func (a *asking) countWaiting(f *fold, d *Decision, own *ticketAt) {
	if len(f.p.lines.byScope) == 0 {
		return
	}
	for i := range d.Verdicts {
		k := a.lineOf(i)
		n := f.p.lines.length(k)
		if own != nil && lineKey(own.ref) == k {
			n--
		}
		if d.Verdicts[i].Waiting = n; i == d.Binding {
			d.Waiting = n
		}
	}
}
