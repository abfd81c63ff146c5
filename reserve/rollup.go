package reserve

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/limits"
)

// Bounds of roll-ups (ADR 13).
const (
	RollupKept = 32 * 24 * time.Hour // of an hour's counts
	TallyKept  = 7 * 24 * time.Hour  // of an hour's counts by subject
	MaxTallied = 64                  // subjects of a limit and hour that are told apart: the first

	rollupGrain = 2 * 24 * time.Hour // of their leases
	tallyGrain  = 12 * time.Hour
	rollupBatch = 24 // hours of a transaction: two keys each
	rollupTries = 4  // of a transaction that lost to another replica
)

// Rollup is what one limit did within an hour. All but Charged count reservations and checks;
// a consume is begun and committed at once. Charged counts the units that stayed charged when
// it was known that they do. It is a count for people and charts, not an account: what a
// killed replica had not put into the store yet is lost.
type Rollup struct {
	Started, Refused, Committed, Released, Expired, Forced, Charged int64
}

func (r *Rollup) add(o Rollup) {
	r.Started += o.Started
	r.Refused += o.Refused
	r.Committed += o.Committed
	r.Released += o.Released
	r.Expired += o.Expired
	r.Forced += o.Forced
	r.Charged += o.Charged
}

// Tally is a roll-up by subject. Subjects are ascending by scope. More says that others had no
// place any more, so that a count may be too low and a subject missing.
type Tally struct {
	Subjects []SubjectRollup
	More     bool
}

// SubjectRollup is one subject's part of a Tally.
type SubjectRollup struct {
	Scope string
	Rollup
}

// with is t and what c counted by subject; t itself is left as it was.
func (t *Tally) with(c *hourCount) *Tally {
	next := &Tally{}
	if t != nil {
		next.Subjects, next.More = slices.Clone(t.Subjects), t.More
	}
	next.More = next.More || c.more
	var came []SubjectRollup
	for s, r := range c.by {
		scope := s.Scope()
		if i, ok := slices.BinarySearchFunc(next.Subjects, scope, byScope); ok {
			next.Subjects[i].Rollup.add(*r)
		} else {
			came = append(came, SubjectRollup{scope, *r})
		}
	}
	slices.SortFunc(came, func(a, b SubjectRollup) int { return cmp.Compare(a.Scope, b.Scope) })
	if room := MaxTallied - len(next.Subjects); len(came) > room {
		came, next.More = came[:room], true
	}
	next.Subjects = append(next.Subjects, came...)
	slices.SortFunc(next.Subjects, func(a, b SubjectRollup) int { return cmp.Compare(a.Scope, b.Scope) })
	return next
}

func byScope(r SubjectRollup, scope string) int { return cmp.Compare(r.Scope, scope) }

// RollUp puts what this replica has counted into the store, at most max limits' hours: the
// janitor's `rollup`, and once more before a replica ends. What cannot be put is kept for the
// next time; after an unknown outcome it is dropped, so that nothing is counted twice.
// Errors: ErrUnavailable, ErrFull, ErrUnknownOutcome.
func (s *Service) RollUp(ctx context.Context, max int) (put int, err error) {
	all := s.desk.tally.take(max)
	for len(all) > 0 && err == nil && ctx.Err() == nil {
		some := all[:min(len(all), min(rollupBatch, s.cfg.MaxOps/4))]
		if err = s.rollUp(ctx, some); errors.Is(err, ErrUnknownOutcome) {
			all = all[len(some):]
			break
		}
		if err == nil {
			put, all = put+len(some), all[len(some):]
		}
	}
	s.desk.tally.give(all)
	return put, err
}

// rollUp is one transaction, tried again for those that lost to another replica.
func (s *Service) rollUp(ctx context.Context, some []counted) error {
	left := some
	for try := 0; len(left) > 0; try++ {
		if try == rollupTries {
			return ErrContended
		}
		refs := make([]Ref, 0, 2*len(left))
		for i := range left {
			k := &left[i].key
			refs = append(refs, rollupRef(RefRollup, k), rollupRef(RefTally, k))
		}
		got, err := s.cfg.Store.Load(ctx, refs, true)
		if err != nil {
			return err
		}
		groups := make([]Group, len(left))
		for i := range left {
			groups[i] = s.rollupGroup(&left[i], got.Entries[2*i], got.Entries[2*i+1])
		}
		lost, err := s.putRollups(left, groups)
		if err != nil {
			return err
		}
		left = lost
	}
	return nil
}

func rollupRef(kind RefKind, k *hourKey) Ref {
	return Ref{Tenant: k.tenant, Kind: kind, Limit: k.limit, N: k.hour}
}

// rollupGroup adds c to what stands. A value that cannot be read stays as it is.
func (s *Service) rollupGroup(c *counted, total, by Entry) Group {
	age := s.cfg.WindowNow().Sub(time.Unix(c.key.hour*3600, 0))
	g := Group{Tenant: c.key.tenant, Catalog: AnyCatalog}
	put := func(e Entry, value any, keep, grain time.Duration) {
		if e.Fault == nil {
			g.Guards = append(g.Guards, Guard{Ref: e.Ref, Cond: ModIs, Rev: e.Mod})
			g.Writes = append(g.Writes, Write{Ref: e.Ref, Value: value, Keep: max(keep-max(age, 0), time.Hour), Grain: grain, Have: e.Lease})
		}
	}
	sum := &Rollup{}
	if v, ok := total.Value.(*Rollup); ok {
		*sum = *v
	}
	sum.add(c.Rollup)
	put(total, sum, RollupKept, rollupGrain)
	had, _ := by.Value.(*Tally)
	put(by, had.with(&c.hourCount), TallyKept, tallyGrain)
	return g
}

// putRollups sends groups as one transaction, and tells which of left lost.
func (s *Service) putRollups(left []counted, groups []Group) (lost []counted, err error) {
	res, err := s.desk.send(groups)
	if dead := (*LeaseError)(nil); errors.As(err, &dead) {
		s.cfg.Leases.Gone(dead.ID)
		return left, nil
	}
	switch {
	case err != nil:
		return nil, err
	case res.MarkerGone:
		s.cfg.Leases.Gone(0)
		return left, nil
	}
	for i, o := range res.Outcomes {
		if !o.Committed {
			lost = append(lost, left[i])
		}
	}
	return lost, nil
}

// HistoryQuery selects roll-ups: those of every hour, or with Day of every day (UTC), that has
// a part within [From, To).
type HistoryQuery struct {
	Tenant   string
	Limit    string         // "": every limit that there is
	Subject  limits.Subject // nobody: all together
	From, To time.Time
	Day      bool
	After    HistoryPlace
	Max      int
}

// HistoryPlace is where a row stands: by limit, then by instant.
type HistoryPlace struct {
	Limit string
	From  time.Time
}

// HistoryRow is one limit's counts within [From, To), of an hour or a day in which there was
// anything to count.
type HistoryRow struct {
	Limit    string
	From, To time.Time
	Rollup
}

// hoursRead bounds what one read of roll-ups brings: all hours that are kept.
const hoursRead = int(RollupKept/time.Hour) + 64

// History is a page of roll-ups, by limit and time; what this replica has not put into the
// store yet is in it, what other replicas have not is missing. complete is false when a count
// by subject may be too low, because more subjects came than are told apart.
// Errors: ErrNotFound for a limit that is not there and has left nothing, ErrUnavailable.
// Cost: a read for each limit.
func (s *Service) History(ctx context.Context, q HistoryQuery) (rows []HistoryRow, complete bool, err error) {
	complete = true
	names := []string{q.Limit}
	if q.Limit == "" {
		names = names[:0]
		for _, l := range s.Catalog(q.Tenant).Limits() {
			names = append(names, l.ID)
		}
	}
	for _, name := range names {
		if name < q.After.Limit {
			continue
		}
		some, more, err := s.historyOf(ctx, &q, name)
		if err != nil {
			return nil, false, err
		}
		complete = complete && !more
		for _, row := range some {
			if name == q.After.Limit && !row.From.After(q.After.From) {
				continue
			}
			if rows = append(rows, row); len(rows) == q.Max {
				return rows, complete, nil
			}
		}
	}
	if _, known := s.Catalog(q.Tenant).Limit(q.Limit); q.Limit != "" && !known && len(rows) == 0 && q.After.Limit == "" {
		return nil, false, ErrNotFound
	}
	return rows, complete, nil
}

// historyOf are the rows of one limit.
func (s *Service) historyOf(ctx context.Context, q *HistoryQuery, limit string) (rows []HistoryRow, more bool, err error) {
	step := q.step()
	from, to := hourOf(q.From.Truncate(step)), hourOf(q.To.Add(step-time.Nanosecond).Truncate(step))
	kind := RefRollup
	if !q.Subject.IsZero() {
		kind = RefTally
	}
	stored, err := s.cfg.Lister.Hours(ctx, q.Tenant, kind, limit, from, to, hoursRead)
	if err != nil {
		return nil, false, err
	}
	hours, more := s.desk.tally.pending(q.Tenant, limit, q.Subject, from, to)
	for _, e := range stored {
		sum := hours[e.Ref.N]
		switch v := e.Value.(type) {
		case *Rollup:
			sum.add(*v)
		case *Tally:
			more = more || v.More
			if i, ok := slices.BinarySearchFunc(v.Subjects, q.Subject.Scope(), byScope); ok {
				sum.add(v.Subjects[i].Rollup)
			}
		}
		hours[e.Ref.N] = sum
	}
	return q.rowsOf(limit, hours), more, nil
}

// step is how long a row is. Truncating by it meets UTC's own boundaries.
func (q *HistoryQuery) step() time.Duration {
	if q.Day {
		return 24 * time.Hour
	}
	return time.Hour
}

// rowsOf adds hours up to rows, ascending, and leaves out what has nothing.
func (q *HistoryQuery) rowsOf(limit string, hours map[int64]Rollup) (rows []HistoryRow) {
	step := q.step()
	at := make([]int64, 0, len(hours))
	for hour, r := range hours {
		if r != (Rollup{}) {
			at = append(at, hour)
		}
	}
	slices.Sort(at)
	for _, hour := range at {
		from := time.Unix(hour*3600, 0).UTC().Truncate(step)
		if n := len(rows); n > 0 && rows[n-1].From.Equal(from) {
			rows[n-1].Rollup.add(hours[hour])
			continue
		}
		rows = append(rows, HistoryRow{Limit: limit, From: from, To: from.Add(step), Rollup: hours[hour]})
	}
	return rows
}
