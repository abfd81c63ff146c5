package reserve

import "time"

// batch is one in the making, and the requests that did not come into it.
type batch struct {
	*fold
	apart               bool   // it is of those that are sent apart, or of the others
	loading, confirming []*job // need a read first
	toLoad, toConfirm   []Ref
	later               []*job // in another batch
}

// assemble makes one batch of what is ready, and of the desk's own jobs beside it, and sends it
// on its way.
func (d *desk) assemble(now time.Time) {
	f := d.newFold()
	f.p, f.now, f.busy, f.skewed, f.shared = d.p, now, d.isBusy, d.clock.stepped(now), len(d.p.members) > 1
	b := batch{fold: f}
	if len(d.ready) > 0 {
		b.apart = d.ready[0].apart
	}
	i, k, share, beside := 0, 0, d.share(), d.beside()
	for ; k < len(d.own) && k < beside && d.fits(f, beside); k++ {
		d.take(&b, d.own[k], now) // first: slots that come free are what callers wait for
	}
	for ; i < len(d.ready) && d.fits(f, share+k); i++ {
		d.take(&b, d.ready[i], now)
	}
	d.ready, d.own = append(b.later, d.ready[i:]...), d.own[k:]
	if f.jobs > 0 {
		d.fly(f)
	} else {
		d.recycle(f)
	}
	d.fetch(b.loading, b.toLoad, false)
	d.fetch(b.confirming, b.toConfirm, true)
}

// take has one request decided, and puts it where it belongs.
func (d *desk) take(b *batch, j *job, now time.Time) {
	if j.apart != b.apart {
		b.later = append(b.later, j)
		return
	}
	if j.flown.Load() == stageAbandoned || !now.Before(j.until) {
		d.reply(j, result{err: j.trouble()}) // nobody listens any more, or it is too late to begin
		return
	}
	switch m := j.step(b.fold, j); m.kind {
	case answered:
		d.reply(j, m.res)
	case changes:
		if !j.fly() {
			d.reply(j, result{err: ErrUnavailable})
			return
		}
		b.join(j, m.draft)
	case loads:
		b.loading, b.toLoad = append(b.loading, j), append(b.toLoad, m.need...)
	case confirms:
		b.confirming, b.toConfirm = append(b.confirming, j), append(b.toConfirm, m.need...)
	case awaits:
		d.waiting = append(d.waiting, j)
	case outlasts:
		d.lasting = append(d.lasting, j)
	case parks:
		if d.isBusy(m.on) {
			d.parked[m.on] = append(d.parked[m.on], j)
		} else {
			b.later = append(b.later, j) // on a key of this very batch
		}
	}
}

// newFold is an empty batch, one used before where there is one.
func (d *desk) newFold() *fold {
	if n := len(d.spare); n > 0 {
		f := d.spare[n-1]
		d.spare = d.spare[:n-1]
		return f
	}
	return &fold{cells: map[Ref]*cell{}}
}

// fits says whether the batch may take one more request: operations are counted as etcd does,
// the widest side of each level of nesting added up.
func (d *desk) fits(f *fold, share int) bool {
	const levels, widestRequest = 4, 44
	return f.jobs < d.most && f.groups < share && f.bytes < maxBytes && levels+f.groups+1+f.widest+widestRequest <= max(d.maxOps, levels+2*widestRequest)
}

func (d *desk) isBusy(r Ref) bool { _, ok := d.busy[r]; return ok }
