package reserve

import (
	"time"

	"github.com/holdfast-dev/holdfast/limits"
)

// granted is the answer to a grant or an extend that was just committed: what is promised
// counts from start, before the first call; an earlier promise that reaches further stands.
// fence is the open record's revision.
func (p *picture) granted(rec *Record, tenant string, fence int64, start, promised time.Time) Reservation {
	res := Reservation{Record: *rec, HoldTTL: rec.TTL, LastBeat: rec.CreatedAt}
	res.Fence = fence
	if l := p.holds[holdKey{tenant, rec.ID}]; l != nil {
		if l.told = p.at(start).plus(l.ttl); p.at(promised) > l.told {
			l.told = p.at(promised)
		}
		l.stir()
		res.HoldTTL, res.LastBeat, res.Beats = l.ttl, l.beatTime(), l.beats
	}
	res.Left, res.Expires = res.HoldTTL, start.Add(res.HoldTTL).Round(0)
	return res
}

// reservation is an open record as it stands at now.
func (p *picture) reservation(rec *Record, tenant string, fence int64, now time.Time) Reservation {
	res := Reservation{Record: *rec, HoldTTL: rec.TTL, LastBeat: rec.CreatedAt}
	res.Fence = fence
	if l := p.holds[holdKey{tenant, rec.ID}]; l != nil {
		res.HoldTTL, res.LastBeat, res.Beats = l.ttl, l.beatTime(), l.beats
		res.Left = l.left(p.read(now))
	}
	res.Expires = now.Add(res.Left).Round(0)
	return res
}

// holder is the live hold in a slot of s as a refusal shows it; rec is nil when it is not known.
func (p *picture) holder(l *live, rec *Record, s *slotSet, now time.Time) Holder {
	h := Holder{
		ID: l.id, Limit: s.key.limit, Scope: s.key.scope, Slot: -1, Fence: l.fence(),
		Since: l.sinceTime(), Beat: l.beatTime(), Beats: l.beats, TTL: l.ttl, Expires: now.Add(l.left(p.read(now))).Round(0),
	}
	h.Name, h.Host = l.worker()
	for _, at := range l.places {
		if at.set == s {
			h.Slot = at.n
		}
	}
	if rec != nil {
		h.Subject, h.Principal, h.Owner = rec.Subject, rec.Principal, rec.Owner
	}
	return h
}

// mostTTL is the longest TTL the enforced limits of rec allow.
func (p *picture) mostTTL(tenant string, rec *Record) time.Duration {
	most, cat := MaxTTL, p.catalogOf(tenant)
	lower := func(limit string) {
		if l, ok := cat.Limit(limit); ok && l.MaxTTL > 0 && !l.Shadow {
			most = min(most, l.MaxTTL)
		}
	}
	for _, at := range rec.Places {
		lower(at.Limit)
	}
	for _, c := range rec.Charges {
		lower(c.Limit)
	}
	for _, r := range cat.AppendMatch(nil, rec.Subject, rec.Action) { // one of cost 0 is charged nowhere
		lower(r.ID)
	}
	return most
}

// owing is a settlement whose slots were freed while the store had no space for the rest.
type owing struct {
	a  acting
	to State
}

// maxOwed bounds the settlements remembered while the store is full (entries); beyond it a
// record is settled as expired.
const maxOwed = 100_000

func (p *picture) owe(tenant string, a acting, to State) {
	if len(p.owed) < maxOwed {
		p.owed[holdKey{tenant, a.ID}] = owing{a: a, to: to}
	}
}

// blocking refuses a subject new grants, in the transaction that forces its hold's end.
type blocking struct {
	length time.Duration
	until  time.Time
}

func (b *blocking) draft(f *fold, j *job, dr *draft, rec *Record) (move, bool) {
	catalog := Ref{Tenant: j.tenant, Kind: RefCatalog}
	e, _ := f.read(catalog)
	if f.busy(catalog) {
		return park(catalog), false
	}
	seq, _ := e.Value.(Seq)
	j.touches = append(j.touches, catalog)
	dr.touches = j.touches
	dr.guard(catalog, ModIs, e.Mod)
	dr.put(Write{Ref: catalog, Value: seq + 1})
	dr.put(Write{
		Ref: Ref{Tenant: j.tenant, Kind: RefBlock, Scope: rec.Subject.Scope()}, Keep: b.length,
		Value: &limits.Block{Subject: rec.Subject, Until: b.until, Reason: rec.Note, By: rec.EndedBy},
	})
	return move{}, true
}
