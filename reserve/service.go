package reserve

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/holdfast-dev/holdfast/limits"
)

// Defaults of Config.
const (
	DefaultRetain = 15 * time.Minute
	DefaultMaxOps = 128 // etcd's own default of operations a transaction
	readyBudget   = time.Second
)

// Config is what a Service is made of. Store, Leases and Now are required.
type Config struct {
	Store          Store
	Lister         Lister
	Leases         Leaser
	Packer         Packer           // nil: values are kept in memory as they are
	Sessions       Sessions         // what tickets hang on; nil: nobody can wait, Request.Wait counts as 0
	Now            func() time.Time // real clock with a monotonic reading
	WindowNow      func() time.Time // clock of windows, untils and hourly marks; nil: Now
	Replica        string           // this replica's id, as in RefReplica; "" when alone
	Retain         time.Duration    // of ended records; 0: DefaultRetain
	AllowUnmatched bool             // a check that no limit matches is allowed
	MaxOps         int              // operations a transaction; 0: DefaultMaxOps
	Quarantined    func() bool      // no hold is begun, with ErrQuarantine, while it says so; nil: never
	NoSpace        func() bool      // new grants are refused with ErrFull while it says so; nil: never
	Refused        func(Refusal)    // hears of refusals, at most ToldRefusals of a tenant a second; quick; nil: nobody
	Told           func(Update)     // hears all that the store tells, after the desk; quick; nil: nobody
	Log            *slog.Logger     // nil: discarded
	Metrics        prometheus.Registerer
}

// Service decides checks and acts on holds. It is safe for concurrent use; its methods answer
// once Run runs, and each within 10 seconds (the desk's budgets) whatever the store does.
type Service struct {
	cfg   Config
	desk  *desk
	meter *meter

	visits sync.Pool // of *visit

	keys struct { // Idempotency-Keys being worked on, bounded by the desk's pending requests
		sync.Mutex
		busy map[holdKey]struct{}
	}
	sessions  sessionLoss
	roster    roster
	refusals  *refusals
	exceeding *exceeding
	sweep     struct {
		sync.Mutex
		tenant string
		after  ID
	}
}

// New builds a Service; it does nothing until Run. All faults of cfg come joined.
func New(cfg Config) (*Service, error) {
	var faults []error
	for name, missing := range map[string]bool{"Store": cfg.Store == nil, "Leases": cfg.Leases == nil, "Now": cfg.Now == nil} {
		if missing {
			faults = append(faults, fmt.Errorf("reserve: Config.%s is required", name))
		}
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	if cfg.WindowNow == nil {
		cfg.WindowNow = cfg.Now
	}
	if cfg.Retain == 0 {
		cfg.Retain = DefaultRetain
	}
	if cfg.MaxOps == 0 {
		cfg.MaxOps = DefaultMaxOps
	}
	if cfg.NoSpace == nil {
		cfg.NoSpace = func() bool { return false }
	}
	if cfg.Quarantined == nil {
		cfg.Quarantined = func() bool { return false }
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	s := &Service{cfg: cfg, visits: sync.Pool{New: newVisit}, refusals: newRefusals(), exceeding: newExceeding()}
	s.keys.busy, s.roster.own = map[holdKey]struct{}{}, cfg.Replica
	m, err := newMeter(cfg.Metrics, s.liveHolds, lineGauges{s.waitersHere, s.longestLine, s.longestWait})
	if err != nil {
		return nil, err
	}
	p := newPicture(cfg.Packer)
	p.replica = cfg.Replica
	s.meter, s.desk = m, newDesk(cfg, p, m)
	return s, nil
}

func (s *Service) liveHolds() float64 {
	s.desk.mu.Lock()
	defer s.desk.mu.Unlock()
	return float64(len(s.desk.p.holds))
}

// Run follows the store, turns the desk and the sand-glasses until ctx ends; then it takes
// nothing new, answers what it accepted (10 s at most), and returns.
func (s *Service) Run(ctx context.Context) error {
	watch, stop := context.WithCancel(context.WithoutCancel(ctx))
	var both sync.WaitGroup
	var err error
	both.Go(func() {
		if e := s.cfg.Store.Follow(watch, s.tell); watch.Err() == nil {
			err = e
		}
	})
	both.Go(func() { s.tellExceeded(watch) })
	s.desk.run(ctx)
	stop()
	both.Wait()
	return err
}

// tell lets the desk hear u first: nobody is told of what cannot be decided on yet.
func (s *Service) tell(u Update) {
	s.desk.tell(u)
	s.roster.tell(&u, s.cfg.Now())
	if s.cfg.Told != nil {
		s.cfg.Told(u)
	}
}

// Ready says whether this replica can decide: its picture is loaded, and a linearizable read
// answers within a second.
func (s *Service) Ready(ctx context.Context) error {
	s.desk.mu.Lock()
	loaded := s.desk.p.loaded
	s.desk.mu.Unlock()
	if !loaded {
		return fmt.Errorf("the picture of the store is not loaded yet: %w", ErrUnavailable)
	}
	ctx, cancel := context.WithTimeout(ctx, readyBudget)
	defer cancel()
	_, err := s.cfg.Store.Load(ctx, []Ref{{Kind: RefCatalog, Tenant: "default"}}, true)
	return err
}

// Reserve takes a slot of every concurrent limit that matches and charges the others, all or
// nothing. A refusal is a Decision that is not Allowed. Under a Key that has been used before
// the first grant comes again, Replayed, with the time it has left now.
//
// The end is counted from before the first call to the store: the slot is never free before
// the caller was told it would be.
//
// Errors: *NoLimitError, *TooManyLimitsError, *TTLError; ErrMismatch, ErrInFlight, *LostError
// under a Key; ErrContended, ErrUnavailable, ErrOverloaded, ErrDraining, ErrClockSkew, ErrFull, ErrQuarantine
// (nothing happened); ErrUnknownOutcome (repeat under the same Key).
// Cost: its share of one transaction.
func (s *Service) Reserve(ctx context.Context, r Request) (Reservation, Decision, error) {
	res, err := s.check(ctx, r, take)
	return res.res, res.dec, err
}

// Consume charges the counting limits that match, all or nothing; each concurrent one must
// have a free slot, none is taken. Errors as Reserve's.
func (s *Service) Consume(ctx context.Context, r Request) (d Decision, replayed bool, err error) {
	res, err := s.check(ctx, r, consume)
	return res.dec, res.replay, err
}

// Preview decides and changes nothing. It rests on a read begun after the call.
func (s *Service) Preview(ctx context.Context, r Request) (Decision, error) {
	res, err := s.check(ctx, r, preview)
	return res.dec, err
}

func (s *Service) check(ctx context.Context, r Request, m mode) (result, error) {
	v := s.visits.Get().(*visit)
	a := &v.asking
	*a = asking{Request: r, mode: m, retain: s.cfg.Retain, unmatched: s.cfg.AllowUnmatched, noSpace: s.cfg.NoSpace(), quarantined: m == take && s.cfg.Quarantined()}
	switch {
	case r.Key != "" && m != preview:
		a.id, a.digest = derive(r.Tenant, r.Principal, r.Route, r.Key), digest(r.Body)
		done, ok := s.claim(holdKey{r.Tenant, a.id})
		if !ok {
			return result{}, ErrInFlight
		}
		defer done()
	default:
		a.Key = ""
		a.id = NewID()
	}
	now, windowNow := s.cfg.Now(), s.cfg.WindowNow()
	v.job = job{tenant: r.Tenant, start: now, at: windowNow, until: now.Add(actBudget), step: v.step, reply: v.reply}
	var res result
	var err error
	if r.Wait > 0 && m != preview && s.cfg.Sessions != nil {
		res, err = s.standInLine(ctx, a) // for longer than a visit is to be kept
	} else {
		var answered bool
		own := holdKey{r.Tenant, a.id}
		if res, answered, err = s.wait(ctx, &v.job, v.out); answered {
			s.visits.Put(v)
		}
		if r.Leaves && r.Key != "" && m != preview && err == nil && !res.dec.Allowed {
			s.desk.comesBackNoMore(ctx, own)
		}
	}
	s.meter.decision(m, &res.dec, err)
	if err == nil {
		s.desk.tally.decision(&r, m, &res.dec, res.replay, hourOf(windowNow))
	}
	if m != preview {
		if full, ok := errors.AsType[*LineFullError](err); ok {
			s.refused(&r, &full.Decision, true, windowNow)
		} else if err == nil && !res.dec.Allowed {
			s.refused(&r, &res.dec, false, windowNow)
		}
	}
	return res, err
}

// visit is all that a check needs on its way through the desk. Nobody holds on to it once it
// has been answered, so it is used again.
type visit struct {
	asking asking
	job    job
	out    chan result
	step   func(*fold, *job) move // of asking
	reply  func(result)           // into out
}

func newVisit() any {
	v := &visit{out: make(chan result, 1)}
	v.step, v.reply = v.asking.step, func(r result) { v.out <- r }
	return v
}

// claim marks a key as being worked on here; another replica's attempt is told apart by the
// guards.
func (s *Service) claim(k holdKey) (done func(), ok bool) {
	s.keys.Lock()
	defer s.keys.Unlock()
	if _, taken := s.keys.busy[k]; taken {
		return nil, false
	}
	s.keys.busy[k] = struct{}{}
	return func() {
		s.keys.Lock()
		delete(s.keys.busy, k)
		s.keys.Unlock()
	}, true
}

// do sends a step through the desk and waits for its answer. The step goes on when the caller
// hangs up: what was sent must not be half done.
func (s *Service) do(ctx context.Context, tenant string, step func(*fold, *job) move) (result, error) {
	now := s.cfg.Now()
	out := make(chan result, 1)
	j := &job{
		tenant: tenant, start: now, at: s.cfg.WindowNow(), until: now.Add(actBudget), step: step,
		reply: func(r result) { out <- r },
	}
	r, _, err := s.wait(ctx, j, out)
	return r, err
}

// wait hands j to the desk and waits for what comes out; answered is false when j is still on
// its way.
func (s *Service) wait(ctx context.Context, j *job, out <-chan result) (r result, answered bool, err error) {
	if err := s.desk.submit(j); err != nil {
		return result{}, false, err
	}
	select {
	case r = <-out:
		return r, true, r.err
	case <-ctx.Done():
		if j.abandon() {
			return result{}, false, fmt.Errorf("%w: %w", ErrUnavailable, context.Cause(ctx))
		}
		return result{}, false, fmt.Errorf("%w: %w", ErrUnknownOutcome, context.Cause(ctx))
	}
}

func digest(body []byte) (d [16]byte) {
	sum := sha256.Sum256(body)
	copy(d[:], sum[:])
	return d
}

// derive is the id that belongs to an Idempotency-Key: the same for the same tenant,
// principal, route and key, and for no other.
func derive(tenant, principal, route, key string) (id ID) {
	h := sha256.New()
	for _, part := range []string{tenant, principal, route, key} {
		_, _ = fmt.Fprintf(h, "%d:%s", len(part), part) // a hash never fails to write
	}
	copy(id[:], h.Sum(nil))
	return id
}

// Catalog is the catalogue as this replica knows it; never nil.
func (s *Service) Catalog(tenant string) *limits.Catalog {
	s.desk.mu.Lock()
	defer s.desk.mu.Unlock()
	return s.desk.p.catalogOf(tenant)
}

// Reached waits until this replica knows everything up to revision rev. Errors: ErrUnavailable
// when that takes more than 5 s.
func (s *Service) Reached(ctx context.Context, rev int64) error {
	_, err := s.do(ctx, "", func(f *fold, j *job) move {
		if f.p.rev >= rev {
			return answer(result{})
		}
		j.fresh = rev
		return move{kind: awaits}
	})
	return err
}
