package store

import (
	"github.com/holdfast-dev/holdfast/limits"
	"github.com/holdfast-dev/holdfast/reserve"
)

func (e *encoder) rollup(r *reserve.Rollup) {
	for _, n := range [...]int64{r.Started, r.Refused, r.Committed, r.Released, r.Expired, r.Forced, r.Charged} {
		e.unsigned(n)
	}
}

func (d *decoder) rollup() (r reserve.Rollup) {
	for _, n := range [...]*int64{&r.Started, &r.Refused, &r.Committed, &r.Released, &r.Expired, &r.Forced, &r.Charged} {
		*n = d.unsigned()
	}
	return r
}

func (e *encoder) tally(t *reserve.Tally) {
	more := byte(0)
	if t.More {
		more = 1
	}
	e.b = append(e.b, version, more)
	e.length(len(t.Subjects), reserve.MaxTallied)
	for i := range t.Subjects {
		s := &t.Subjects[i]
		if i > 0 && s.Scope <= t.Subjects[i-1].Scope {
			e.fail("tally out of order at", i) // never the scope: it is a subject's id
		}
		e.text(s.Scope)
		e.rollup(&s.Rollup)
	}
}

func (d *decoder) tally() *reserve.Tally {
	const least = 8 // bytes of a subject: each field's one
	more := d.byte()
	d.bad = d.bad || more > 1
	t := &reserve.Tally{More: more == 1}
	for range d.length(reserve.MaxTallied, least) {
		s := reserve.SubjectRollup{Scope: d.text(), Rollup: d.rollup()}
		if n := len(t.Subjects); n > 0 && s.Scope <= t.Subjects[n-1].Scope {
			d.bad = true
		}
		t.Subjects = append(t.Subjects, s)
	}
	return t
}

func (e *encoder) exceeded(x *reserve.Exceeded) {
	e.b = append(e.b, version)
	e.time(x.At)
	e.unsigned(x.Amount)
	e.unsigned(x.Used)
	e.text(string(x.Action))
}

func (d *decoder) exceeded() *reserve.Exceeded {
	return &reserve.Exceeded{At: d.time(), Amount: d.unsigned(), Used: d.unsigned(), Action: limits.Action(d.text())}
}
