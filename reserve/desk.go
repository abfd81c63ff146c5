package reserve

import (
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// Bounds of the desk.
const (
	maxPending    = 16_384                 // requests accepted and not answered
	maxFlights    = 4                      // transactions in flight; as many reads beside them
	shares        = 3                      // a batch has one of so many parts of what is pending; see share
	leastShare    = 16                     // groups a batch is not kept below
	leastBeside   = 64                     // of the desk's own jobs a batch may have beside what callers ask
	mostHeld      = 4 * time.Millisecond   // that a batch waits for its share while others fly
	maxBatch      = 512                    // requests a transaction: etcd applies it in less than the 100 ms it traces from
	maxBytes      = 512 << 10              // of what a transaction puts, estimated
	maxDue        = 2_048                  // expiries started at a time: a batch that is applied and one that is made
	maxSpareCells = 16_384                 // of a fold that is kept for another batch
	actBudget     = 3 * time.Second        // from coming in to the last attempt
	flightBudget  = 2 * time.Second        // of one call to the store, leases included; FAULTS.md section 1.4
	resolveBudget = 2 * time.Second        // to find out what became of a lost answer
	tick          = 250 * time.Millisecond // how late a request past its budget may be answered
	mostBackOff   = 50 * time.Millisecond  // between attempts of a loser
	mostRest      = 400 * time.Millisecond // between attempts while the store is away
	shortTTL      = 10 * time.Second       // below it a lease is likely to be the dead one
)

// desk takes what has queued up while the last batches were in flight, decides and folds it
// on the picture, and sends it as one guarded transaction. Batching comes from load, never
// from a timer: on an idle replica a request passes at once.
//
// Whoever has something for it and finds it free turns it: a caller, a flight that landed, the
// watch. One goroutine of its own turns it when something is due, and for those who found it
// taken. Flights run beside it and land under the same lock.
type desk struct {
	store  Store
	leases Leaser
	now    func() time.Time
	maxOps int
	retain time.Duration // of ended records and replays
	meter  *meter
	tally  *tally
	log    *slog.Logger

	windowNow func() time.Time // clock of windows

	asked   atomic.Int64 // by callers and not answered
	pending atomic.Int64 // the same, and the desk's own jobs
	wake    chan struct{}
	inbox   struct {
		sync.Mutex
		jobs   []*job
		closed bool
	}

	mu      sync.Mutex // guards all below
	p       *picture
	clock   stepwatch
	ready   []*job         // to be decided, in order
	parked  map[Ref][]*job // until the key's flight lands
	waiting []*job         // until the watch has reached job.fresh
	lasting []*job         // until job.after is settled
	busy    map[Ref]struct{}
	writes  int // flights
	reads   int
	most    int // requests a transaction now; halved when the store says it is too big
	flying  sync.WaitGroup
	held    time.Time // since when a batch waits for its share; zero: none does
	looksAt time.Time // when its own goroutine turns next

	spare      []*fold // to be used again
	draining   bool
	own        []*job    // jobs of its own, to be decided beside what is ready
	ending     int       // jobs of its own that are not done
	lookedOver time.Time // when giveUp last ran
	toldLate   time.Time // when tellLate last told

	waiters  map[holdKey]*waiter
	sessions Sessions // nil: nobody can wait
	replica  string
	closing  bool // nobody may join a line any more
}

func newDesk(cfg Config, p *picture, m *meter) *desk {
	d := &desk{
		store: cfg.Store, leases: cfg.Leases, now: cfg.Now, windowNow: cfg.WindowNow,
		maxOps: cfg.MaxOps, retain: cfg.Retain, meter: m, tally: newTally(), log: cfg.Log,
		wake: make(chan struct{}, 1), p: p, parked: map[Ref][]*job{}, busy: map[Ref]struct{}{}, most: maxBatch,
		waiters: map[holdKey]*waiter{}, sessions: cfg.Sessions, replica: cfg.Replica,
	}
	p.lines.overtook, p.lines.told = m.overtakes.Inc, d.ticketTold
	p.orphaned = func(tenant string, id ID) { d.end(tenant, id, d.now()) }
	return d
}

// submit hands a job to the desk. It is answered once, by its reply: within actBudget, a
// flight and, when the answer was lost, resolveBudget and another.
func (d *desk) submit(j *job) error {
	if d.asked.Add(1) > maxPending {
		d.asked.Add(-1)
		return ErrOverloaded
	}
	d.pending.Add(1)
	j.asked = true
	d.inbox.Lock()
	closed := d.inbox.closed
	if !closed {
		d.inbox.jobs = append(d.inbox.jobs, j)
	}
	d.inbox.Unlock()
	if closed {
		d.asked.Add(-1)
		d.pending.Add(-1)
		return ErrDraining
	}
	d.nudge()
	return nil
}

func (d *desk) reply(j *job, r result) {
	d.pending.Add(-1)
	if j.asked {
		d.asked.Add(-1)
	}
	j.reply(r) // whoever asked may use j again from here on
}
