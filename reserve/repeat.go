package reserve

func (a *asking) replayRef() Ref { return Ref{Tenant: a.Tenant, Kind: RefReplay, ID: a.id} }

// earlier answers from what the same id or key has done before; ok is false when nothing has.
// A value that cannot be read is an error: what it remembers is not known.
func (a *asking) earlier(f *fold, j *job) (m move, ok bool) {
	a.sent = a.sent || j.sent
	if a.Key == "" && !a.sent || a.mode == preview {
		return move{}, false
	}
	refs := []Ref{openRef(a.Tenant, a.id), endedRef(a.Tenant, a.id), a.replayRef()}
	var found [3]Entry
	for i, r := range refs {
		e, known := f.read(r)
		if !known {
			return load(refs...), true
		}
		if e.Fault != nil {
			return fail(e.Fault), true
		}
		found[i] = e
	}
	open, _ := found[0].Value.(*Record)
	ended, _ := found[1].Value.(*Record)
	if ended != nil && ended.State == Aborted {
		ended = nil // granted to nobody: it counts as never
	}
	replay, _ := found[2].Value.(*Replay)
	switch {
	case open != nil && open.State == Held:
		return a.stillHeld(f, j, open, found[0], refs), true
	case ended != nil && ended.Body != a.digest, replay != nil && replay.State == Committed && replay.Body != a.digest:
		return fail(ErrMismatch), true
	case ended != nil:
		return fail(&LostError{Record: *ended}), true
	case replay != nil && replay.State == Committed:
		return a.again(f, j, result{replay: !a.sent}), true
	}
	return move{}, false
}

// stillHeld answers a repeated request whose record is open. Open is not held: that its slots
// stand must be seen by a read begun after the request came in, like anything that is told.
func (a *asking) stillHeld(f *fold, j *job, rec *Record, open Entry, refs []Ref) move {
	if !f.untouched(open.Ref) {
		return park(open.Ref) // made in this very batch
	}
	if rec.Body != a.digest {
		return fail(ErrMismatch)
	}
	if j.fresh == 0 {
		return confirm(refs)
	}
	if j.fresh = max(j.fresh, open.Mod); f.p.rev < j.fresh {
		return move{kind: awaits}
	}
	for _, k := range rec.keys(a.Tenant) {
		if e, _ := f.read(k); e.Create != open.Mod || !f.untouched(k) {
			a.under = nil                 // the touches are the act's now
			return a.extends().step(f, j) // settles it as expired, and answers that it is lost
		}
	}
	delete(f.p.lines.unreceived, holdKey{a.Tenant, a.id})
	m := a.again(f, j, result{res: f.p.reservation(rec, a.Tenant, open.Mod, f.now), replay: !a.sent})
	if m.kind != answered || !a.waits || m.res.res.Beats > 0 || j.full || a.noSpace {
		return m
	}
	return a.takesOver(f, j, m)
}

// takesOver extends the hold before a repeat that waits is told of it: it was granted to an
// earlier call of the same key, and the replica that call hung up at may be about to undo it.
func (a *asking) takesOver(f *fold, j *job, told move) move {
	a.under = nil // the touches are the act's now
	m := a.extends().step(f, j)
	if m.kind != changes {
		return m
	}
	extended := j.finish
	j.mark, j.blind = nil, false
	j.finish = func(rev int64) result {
		r := told.res
		r.res = extended(rev).res
		r.res.Replayed = r.replay
		return r
	}
	return m
}

func (a *asking) extends() *acting {
	return &acting{HoldRef: HoldRef{ID: a.id, By: Caller{Tenant: a.Tenant}}, do: extend, retain: a.retain}
}

// again is the answer to a repeated request: what was granted, with the limits of now.
func (a *asking) again(f *fold, j *job, r result) move {
	if missing, err := a.look(f, nil, true); err != nil {
		return fail(err)
	} else if len(missing) > 0 {
		return load(missing...)
	}
	r.dec = decide(a.ss, nil, 0, preview, j.at)
	r.dec.Allowed, r.dec.Binding = true, -1
	for i := range r.dec.Verdicts {
		r.dec.Verdicts[i].Why = Fits
	}
	r.res.Replayed = r.replay
	return answer(r)
}
