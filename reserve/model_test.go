package reserve_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-dev/holdfast/limits"
	"github.com/holdfast-dev/holdfast/reserve"
	"github.com/holdfast-dev/holdfast/store/memory"
	"github.com/holdfast-dev/holdfast/windows"
)

// The random model: real services on the model of the keyspace, in fake time, under lag,
// lost and late answers, replicas that die, stand still or drift, leases that are armed
// again, amounts that go up and down. A witness looks at every revision of the store.
//
// A step is one act of a client or one fault. A seed that fails is printed and replays.

const (
	stepsASeed   = 2_000
	modelSteps   = 1_000_000
	shortSteps   = 100_000
	longestGrant = 15 * time.Second // from the first decision of a grant to its answer: the desk's budgets
	mostDrift    = 1_000            // a replica's clock gains or loses at most 1 second in so many
)

func TestModel(t *testing.T) {
	steps := modelSteps
	if testing.Short() {
		steps = shortSteps
	}
	if n, err := strconv.Atoi(os.Getenv("HOLDFAST_TEST_MODEL_STEPS")); err == nil {
		steps = n
	}
	var next atomic.Uint64
	if done, err := strconv.ParseUint(os.Getenv("HOLDFAST_TEST_MODEL_DONE"), 10, 64); err == nil { // go on after this seed
		next.Store(done)
	}
	last := next.Load() + uint64(steps/stepsASeed)
	if s, err := strconv.ParseUint(os.Getenv("HOLDFAST_TEST_MODEL_SEED"), 10, 64); err == nil { // replay one
		if err := runModel(t, s, plant{}); err != nil {
			t.Errorf("seed %d: %v", s, err)
		}
		return
	}
	for range 4 {
		t.Run("seeds", func(t *testing.T) {
			t.Parallel()
			for {
				seed := next.Add(1)
				if seed > last || t.Failed() {
					return
				}
				if err := runModel(t, seed, plant{}); err != nil {
					t.Errorf("seed %d: %v", seed, err)
				}
			}
		})
	}
}

// A planted change of a rule must be caught, or the model proves nothing.
func TestModel_CatchesPlantedFaults(t *testing.T) {
	const seeds = 300
	for name, planted := range plants {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for seed := uint64(1); seed <= seeds; seed++ {
				if err := runModel(t, seed, planted); err != nil {
					t.Logf("caught by seed %d: %v", seed, err)
					return
				}
			}
			t.Errorf("not caught in %d seeds", seeds)
		})
	}
}

// plant is a change of a rule: of what a replica sends, reads, or leases.
type plant struct {
	batch  func(*reserve.Batch)
	err    func(error) error // what Apply answers
	stale  bool              // fresh reads are none
	hasten time.Duration     // leases are asked for so much shorter
}

var plants = map[string]plant{
	"slots are not compared as absent": guards(func(g reserve.Guard) bool {
		return g.Ref.Kind == reserve.RefSlot && g.Cond == reserve.ModIs && g.Rev == 0
	}),
	"usage is not compared": guards(func(g reserve.Guard) bool { return g.Ref.Kind == reserve.RefUsage }),
	"nothing is compared when a record is settled": guards(func(g reserve.Guard) bool {
		return g.Ref.Kind == reserve.RefOpen && g.Rev != 0 || g.Cond != reserve.ModIs
	}),
	"the record is not compared when it is made": guards(func(g reserve.Guard) bool {
		return (g.Ref.Kind == reserve.RefOpen || g.Ref.Kind == reserve.RefEnded) && g.Rev == 0
	}),
	"an expiry does not compare the revision it watched": guards(func(g reserve.Guard) bool {
		return g.Ref.Kind == reserve.RefSlot && g.Cond == reserve.ModIs && g.Rev != 0
	}),
	"the catalogue is not compared":        batches(func(g *reserve.Group) { g.Catalog = reserve.AnyCatalog }),
	"the freshness marker is not compared": {batch: func(b *reserve.Batch) { b.Marker = 0 }},
	"a settled record leaves its slot behind": batches(func(g *reserve.Group) {
		g.Writes = without(g.Writes, func(w reserve.Write) bool { return w.Ref.Kind == reserve.RefSlot && w.Value == nil })
	}),
	"a refund is forgotten": batches(func(g *reserve.Group) {
		ends := slices.ContainsFunc(g.Writes, func(w reserve.Write) bool { return w.Ref.Kind == reserve.RefEnded })
		g.Writes = without(g.Writes, func(w reserve.Write) bool { return ends && w.Ref.Kind == reserve.RefUsage })
	}),
	"slots hang on no lease": batches(func(g *reserve.Group) {
		for k := range g.Writes {
			if g.Writes[k].Ref.Kind == reserve.RefSlot {
				g.Writes[k].Lease = 0
			}
		}
	}),
	"nobody looks whether others stand in line": batches(func(g *reserve.Group) {
		g.NoLine = false
		g.Guards = without(g.Guards, func(g reserve.Guard) bool { return g.Cond == reserve.NoneFrom })
	}),
	"a lease ends before the hold": {hasten: 14 * time.Second},
	"a refusal rests on memory":    {stale: true},
	"an unknown outcome is taken for nothing happened": {err: func(err error) error {
		if errors.Is(err, reserve.ErrUnknownOutcome) {
			return reserve.ErrUnavailable
		}
		return err
	}},
}

func guards(drop func(reserve.Guard) bool) plant {
	return batches(func(g *reserve.Group) { g.Guards = without(g.Guards, drop) })
}

func batches(change func(*reserve.Group)) plant {
	return plant{batch: func(b *reserve.Batch) {
		for i := range b.Groups {
			change(&b.Groups[i])
		}
	}}
}

func without[T any](in []T, drop func(T) bool) (out []T) {
	for _, v := range in {
		if !drop(v) {
			out = append(out, v)
		}
	}
	return out
}

// planted is a store and a wheel with the plant in them.
type planted struct {
	*memory.View
	plant
	slow *atomic.Int64 // how long answers take after the store has applied
}

func (p planted) Apply(ctx context.Context, b reserve.Batch) (reserve.Result, error) {
	if p.batch != nil {
		p.batch(&b)
	}
	res, err := p.View.Apply(ctx, b)
	if late := time.Duration(p.slow.Load()); late > 0 {
		time.Sleep(late)
	}
	if p.err != nil {
		err = p.err(err)
	}
	return res, err
}

func (p planted) Load(ctx context.Context, refs []reserve.Ref, fresh bool) (reserve.Loaded, error) {
	got, err := p.View.Load(ctx, refs, fresh)
	if p.stale {
		time.Sleep(time.Millisecond) // who asks again until it is fresh enough must not stop the clock
		got.Rev = 1
	}
	return got, err
}

type hasty struct {
	reserve.Leaser
	by time.Duration
}

func (h hasty) Lease(ctx context.Context, keep, grain time.Duration, have reserve.LeaseID) (reserve.LeaseID, error) {
	return h.Leaser.Lease(ctx, keep-h.by, grain, have)
}

// runModel runs one seed in a bubble and returns the first thing the witness objects to.
func runModel(t *testing.T, seed uint64, planted plant) (err error) {
	synctest.Test(t, func(t *testing.T) {
		m := newModel(t, seed, planted)
		err = m.run()
	})
	return err
}

type model struct {
	*rig
	*witness
	rng      *rand.Rand
	plant    plant
	replicas []*modelReplica
	steps    atomic.Int64
	amount   int64
	length   int64 // steps
	patient  bool  // whoever reserves waits
}

type modelReplica struct {
	mu      sync.Mutex
	name    string
	service *reserve.Service
	stop    func()
	slow    atomic.Int64
	behind  time.Duration // its clock stood still for so long
	drift   time.Duration // per mostDrift of time
	born    time.Time
	frozen  time.Time // its clock stands here; zero: it runs
}

func (m *modelReplica) now() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.frozen.IsZero() {
		return m.frozen
	}
	return m.read()
}

func (m *modelReplica) read() time.Time {
	now := time.Now()
	return now.Add(-m.behind + now.Sub(m.born)/mostDrift*m.drift/time.Second)
}

func newModel(t *testing.T, seed uint64, planted plant) *model {
	m := &model{
		rig: &rig{t: t}, witness: newWitness(), plant: planted,
		rng: rand.New(rand.NewPCG(seed, 77)), length: stepsASeed,
	}
	m.store = memory.New(memory.Config{Now: time.Now, Record: m.witness.record})
	m.setAmount(1 + m.rng.Int64N(4))
	for i := range 1 + m.rng.IntN(3) {
		m.replicas = append(m.replicas, &modelReplica{name: fmt.Sprint("r", i)})
		m.start(m.replicas[i])
	}
	return m
}

func (m *model) setAmount(n int64) {
	m.amount = n
	all := slots("shared", n+1)
	all.Share = limits.All
	m.define(
		slots("exports", n), all,
		counted("total", 1_000_000_000, windows.Window{Kind: windows.Total}),
		counted("rolling", 40, windows.Window{Kind: windows.Minute, Rolling: true}),
	)
}

func (m *model) start(r *modelReplica) {
	r.mu.Lock()
	if r.born.IsZero() {
		r.born = time.Now()
		r.drift = time.Duration(m.rng.Int64N(int64(2*time.Second))) - time.Second
	}
	r.mu.Unlock()
	wheel := m.store.Leases(r.name, r.now)
	service, stop := m.replica(r.name, func(c *reserve.Config) {
		c.Now, c.Leases = r.now, hasty{wheel, m.plant.hasten}
		c.Store = planted{m.store.View(r.name), m.plant, &r.slow}
	})
	r.mu.Lock()
	defer r.mu.Unlock()
	r.service, r.stop = service, stop
}

func (m *modelReplica) running() *reserve.Service {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.service
}

// run lets clients and faults act, then stops all faults and waits: everything must be free.
func (m *model) run() error {
	var wg sync.WaitGroup
	for c := range 5 {
		rng := rand.New(rand.NewPCG(m.rng.Uint64(), uint64(c)))
		wg.Go(func() { m.client(rng) })
	}
	faults := rand.New(rand.NewPCG(m.rng.Uint64(), 99))
	for m.steps.Load() < m.length && m.verdict() == nil {
		time.Sleep(time.Duration(faults.Int64N(int64(2 * time.Second))))
		m.fault(faults)
		m.steps.Add(1)
	}
	m.calm()
	wg.Wait()
	m.quiet()
	for _, r := range m.replicas {
		r.stop()
	}
	m.store.Tick()
	return m.verdict()
}

// calm ends every fault.
func (m *model) calm() {
	for _, r := range m.replicas {
		v := m.store.View(r.name)
		v.SetDown(false)
		v.SetLag(0)
		v.SetDelay(0)
		r.slow.Store(0)
		v.SetFaults(nil)
		v.ReleaseLate()
		m.wake(r, 0)
	}
}

// quiet waits as long as any hold could last, has the janitor look, and asks for the end.
func (m *model) quiet() {
	time.Sleep(40 * time.Second)
	for range 4 {
		for _, r := range m.replicas {
			_, _ = r.running().Sweep(m.ctx(), 10_000)
		}
		time.Sleep(2 * time.Second)
	}
	synctest.Wait()
	m.witness.atRest()
}

func (m *model) fault(rng *rand.Rand) {
	r := m.replicas[rng.IntN(len(m.replicas))]
	v := m.store.View(r.name)
	switch rng.IntN(16) {
	case 0:
		v.SetLag(time.Duration(rng.Int64N(int64(3 * time.Second))))
	case 1:
		v.SetLag(0)
	case 2:
		v.FailNext(memory.After, 1+rng.IntN(3))
	case 3:
		v.FailNext(memory.Late, 1+rng.IntN(3))
	case 4:
		v.FailNext(memory.Before, 1+rng.IntN(5))
	case 5:
		v.ReleaseLate()
	case 6:
		m.setAmount(1 + rng.Int64N(5))
	case 7:
		m.store.Rearm()
	case 8:
		v.SetDown(true)
		time.Sleep(time.Duration(rng.Int64N(int64(4 * time.Second))))
		v.SetDown(false)
	case 9:
		m.restart(r, rng)
	case 10:
		m.wake(r, time.Duration(rng.Int64N(int64(20*time.Second))))
	case 11:
		m.store.CompactNow()
	case 12:
		v.SetDelay(time.Duration(rng.Int64N(int64(200 * time.Millisecond))))
	case 13:
		r.slow.Store(rng.Int64N(int64(300 * time.Millisecond)))
	case 14:
		r.slow.Store(0)
	case 15:
		for _, r := range m.replicas {
			go func() { _, _ = r.running().Sweep(m.ctx(), 1_000) }()
		}
	}
}

// restart kills a replica, without waiting for what it had in hand, and starts another.
func (m *model) restart(r *modelReplica, rng *rand.Rand) {
	m.store.View(r.name).SetDown(true)
	r.stop()
	m.store.View(r.name).SetDown(false)
	time.Sleep(time.Duration(rng.Int64N(int64(15 * time.Second))))
	m.start(r)
}

// wake suspends the replica's machine for d: its clock stands still and it reaches nothing.
func (m *model) wake(r *modelReplica, d time.Duration) {
	if d == 0 {
		return
	}
	v := m.store.View(r.name)
	v.SetDown(true) // a suspended machine sends nothing
	r.mu.Lock()
	r.frozen = r.read()
	r.mu.Unlock()
	time.Sleep(d)
	r.mu.Lock()
	r.behind += d
	r.frozen = time.Time{}
	r.mu.Unlock()
	v.SetDown(false)
}

func (m *model) client(rng *rand.Rand) {
	var mineNow []reserve.ID
	subjects := []limits.Subject{u42, {Kind: "user", ID: "u_7"}}
	for m.steps.Add(1) < m.length && m.verdict() == nil {
		time.Sleep(time.Duration(rng.Int64N(int64(300 * time.Millisecond))))
		s := m.replicas[rng.IntN(len(m.replicas))].running()
		subject := subjects[rng.IntN(2)]
		switch k := rng.IntN(10); {
		case k < 4 || len(mineNow) == 0:
			if id, ok := m.tryReserve(s, rng, subject); ok {
				mineNow = append(mineNow, id)
			}
		case k < 6:
			m.tryExtend(s, mineNow[rng.IntN(len(mineNow))], time.Duration(2+rng.IntN(12))*time.Second)
		case k < 9:
			i := rng.IntN(len(mineNow))
			m.trySettle(s, mineNow[i], rng)
			mineNow = append(mineNow[:i], mineNow[i+1:]...)
		default:
			mineNow = mineNow[1:] // this worker died without a word
		}
	}
}

func (m *model) tryReserve(s *reserve.Service, rng *rand.Rand, subject limits.Subject) (reserve.ID, bool) {
	a := ask(subject, 1+rng.Int64N(3), time.Duration(2+rng.IntN(12))*time.Second)
	if rng.IntN(3) == 0 {
		a.Key, a.Route = fmt.Sprint("k", rng.Uint64()), "r"
	}
	ctx := m.ctx()
	if rng.IntN(3) == 0 || m.patient {
		a.Wait = time.Duration(1+rng.IntN(10)) * time.Second
		if rng.IntN(4) == 0 {
			var hangUp context.CancelFunc
			ctx, hangUp = context.WithTimeout(ctx, time.Duration(rng.Int64N(int64(a.Wait))))
			defer hangUp()
		}
	}
	invoked, rev := time.Now(), m.witness.revision()
	res, d, err := s.Reserve(ctx, a)
	if err == nil && d.Allowed && a.Wait > 0 {
		invoked = time.Now().Add(-longestGrant) // it may have come in long before it was decided
	}
	switch {
	case err != nil:
		return reserve.ID{}, false
	case !d.Allowed:
		m.witness.refused(subject, d, rev)
		return reserve.ID{}, false
	}
	m.witness.promised(res.ID, invoked, res.HoldTTL)
	if a.Key != "" && rng.IntN(2) == 0 {
		again, _, err := s.Reserve(m.ctx(), a)
		var lost *reserve.LostError
		if err == nil && again.ID != res.ID || err != nil && errors.As(err, &lost) && lost.Record.ID != res.ID {
			m.witness.object("key %s: first %v, then %v", a.Key, res.ID, again.ID)
		}
	}
	return res.ID, true
}

func (m *model) tryExtend(s *reserve.Service, id reserve.ID, ttl time.Duration) {
	invoked := time.Now()
	if _, err := s.Extend(m.ctx(), mine(id), ttl); err == nil {
		m.witness.promised(id, invoked, ttl)
	}
}

func (m *model) trySettle(s *reserve.Service, id reserve.ID, rng *rand.Rand) {
	m.witness.leaving(id)
	if rng.IntN(2) == 0 {
		_, _ = s.Release(m.ctx(), mine(id), "")
		return
	}
	_, _ = s.Commit(m.ctx(), mine(id), rng.Int64N(4))
}
