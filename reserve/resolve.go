package reserve

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"
)

// resolve finds out what became of a batch whose answer was lost. Where a guard of an attempt
// looked, a mark is put under the same guard: either the mark stands, and the attempt can
// never commit, or the guard fails and shows what did. Of a grant that is where it will have
// ended, not where it is open: that key goes when the grant ends, and a late attempt would
// find it as it was before. DESIGN.md section 4. Requests that
// have no mark are guarded by what they change, so they are decided again unless what was read
// shows that they happened.
func (d *desk) resolve(fl *flight, why error) {
	full := errors.Is(why, ErrFull)
	deadline := d.now().Add(resolveBudget)
	var marks []Group
	var refs []Ref
	for _, g := range fl.from {
		for _, c := range g.cells {
			refs = append(refs, c.base.Ref)
		}
		for _, j := range g.jobs {
			if j.mark != nil && !full {
				w, guards := j.mark()
				g := Group{Tenant: j.tenant, Catalog: AnyCatalog, Writes: []Write{w}, Guards: guards}
				for _, gd := range guards {
					g.Reads = append(g.Reads, gd.Ref)
				}
				marks = append(marks, g)
			}
		}
	}
	res, got, err := d.probe(marks, refs)
	for err != nil && d.now().Before(deadline) {
		<-time.After(mostBackOff/2 + rand.N(mostBackOff))
		res, got, err = d.probe(marks, refs)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	defer d.kick()
	d.unmark(fl)
	now := d.now()
	if err == nil {
		for i, o := range res {
			d.learnMark(marks[i], o, now)
		}
		d.learnAll(got)
	}
	for _, g := range fl.from {
		for _, j := range g.jobs {
			if err != nil || j.blind {
				d.reply(j, result{err: ErrUnknownOutcome})
				continue
			}
			if j.stands != nil && j.stands() {
				d.reply(j, j.finish(0)) // once more would be late again where the store is slow, and unknown again
				continue
			}
			j.sent, j.full, j.apart = true, full, j.apart || full
			j.fresh = 0
			d.again(j, ErrUnavailable)
		}
	}
}

// marking is what became of one mark, and at which revision.
type marking struct {
	Outcome
	rev int64
}

// probe puts the marks and reads what the batch touched.
func (d *desk) probe(marks []Group, refs []Ref) (out []marking, got Loaded, err error) {
	const chunk = 32
	for len(out) < len(marks) {
		part := marks[len(out):min(len(out)+chunk, len(marks))]
		res, err := d.send(part)
		if err == nil && res.MarkerGone {
			d.leases.Gone(0)
			err = ErrUnavailable
		}
		if dead := (*LeaseError)(nil); errors.As(err, &dead) {
			d.leases.Gone(dead.ID) // marks hang on no session
		}
		if err != nil {
			return nil, Loaded{}, err
		}
		for _, o := range res.Outcomes {
			out = append(out, marking{o, res.Rev})
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), flightBudget)
	defer cancel()
	got, err = d.store.Load(ctx, distinct(refs), true)
	return out, got, err
}

func (d *desk) learnMark(m Group, o marking, now time.Time) {
	if o.Committed {
		w := m.Writes[0]
		d.p.learn(Entry{Ref: w.Ref, Value: w.Value, Create: o.rev, Mod: o.rev, Lease: w.Lease}, o.rev, now)
		return
	}
	for _, e := range o.Seen {
		d.p.learn(e, o.rev, now)
	}
}
