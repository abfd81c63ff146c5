package store

import (
	"context"
	"errors"
	"fmt"
	"slices"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/holdfast-dev/holdfast/reserve"
)

var (
	errShape  = errors.New("the answer has another shape than the question")
	errMarker = errors.New("store: a batch names a marker, but Config.Replica is empty")
)

// Apply is reserve.Store's. It sends b once, as one transaction, and never again: an answer
// that was lost is the caller's to settle, who alone knows which record tells.
//
// Errors: those of reserve.Store. No space Is both ErrFull and ErrUnknownOutcome. A batch that
// writes nothing cannot be in doubt: ErrUnavailable. Besides, a batch that no right program
// makes (a value of the wrong type, a negative cost) is an error of none of these kinds;
// nothing was sent.
//
// When nothing was written, and the watch is behind the answer, it is made to ask for news, as
// Load does: such a batch is a fresh check. Cost: one call, one raft entry; none when b has no
// writes.
func (s *Store) Apply(ctx context.Context, b reserve.Batch) (reserve.Result, error) {
	if err := ctx.Err(); err != nil {
		return reserve.Result{}, fmt.Errorf("store: apply: %w: %w", reserve.ErrUnavailable, err)
	}
	p, err := s.plan(&b)
	if err != nil {
		return reserve.Result{}, err
	}
	used := p.top.ops()
	if used > s.MaxOps() || len(p.buf) > s.cfg.MaxBytes {
		return reserve.Result{}, fmt.Errorf("store: apply: %w: %d operations, %d bytes", reserve.ErrTooBig, used, len(p.buf))
	}
	ctx, cancel := s.call(ctx)
	defer cancel()
	resp, err := s.sender.Txn(ctx, &pb.TxnRequest{Compare: p.top.cmps, Success: p.top.then, Failure: p.top.or})
	s.metrics.count("apply", err)
	if err != nil {
		return reserve.Result{}, s.applyError(err, &b, used)
	}
	res := reserve.Result{Rev: resp.Header.GetRevision(), Outcomes: make([]reserve.Outcome, len(b.Groups))}
	if err := s.readResult(p, &b, resp, &res); err != nil {
		return reserve.Result{}, s.applyError(err, &b, used)
	}
	if !wrote(&b, &res) {
		s.catchUp(res.Rev) // of what was written the watch tells by itself
	}
	return res, nil
}

// wrote reports whether the transaction may have changed a key.
func wrote(b *reserve.Batch, res *reserve.Result) bool {
	for i := range res.Outcomes {
		if res.Outcomes[i].Committed && len(b.Groups[i].Writes) > 0 {
			return true
		}
	}
	return false
}

// node is one transaction: the one that is sent, or one nested in it.
type node struct {
	cmps     []*pb.Compare
	then, or []*pb.RequestOp
	below    int // operations of the widest path under it
}

// ops counts as etcd does: each level its longest list, and below it only the widest path.
func (n *node) ops() int { return max(len(n.cmps), len(n.then), len(n.or)) + n.below }

// nest puts child into the Then of n.
func (n *node) nest(w *wire, child *node) {
	n.then = append(n.then, w.txn(child.cmps, child.then, child.or))
	n.below = max(n.below, child.ops())
}

// cohort is the groups that stand under one comparison of the catalogue, and one of the
// tenant's lines where they ask for it, in order.
type cohort struct {
	tenant  string
	catalog int64
	noLine  bool
	groups  []int
}

// plan is a batch as a transaction. Its children are the cohorts and then the loose groups,
// those that hold under any catalogue. Where there is no marker and just one child, that child
// is the transaction itself.
type plan struct {
	top     node
	cohorts []cohort
	loose   []int
	buf     []byte // all keys and values, so that a batch costs few allocations
	wire    wire
}

func (p *plan) alone(b *reserve.Batch) bool {
	return b.Marker == 0 && len(p.cohorts)+len(p.loose) == 1
}

func (s *Store) plan(b *reserve.Batch) (*plan, error) {
	p := &plan{buf: make([]byte, 0, roomFor(b))}
	for i := range b.Groups {
		p.enlist(i, &b.Groups[i])
	}
	if b.Marker != 0 {
		if s.marker == nil {
			return nil, errMarker
		}
		p.top.cmps = []*pb.Compare{p.wire.compare(s.marker, reserve.CreateIs, b.Marker)}
	}
	alone := p.alone(b)
	for i := range p.cohorts {
		n, err := s.planCohort(p, b, &p.cohorts[i])
		if err != nil {
			return nil, err
		}
		if alone {
			p.top = *n
			return p, nil
		}
		p.top.nest(&p.wire, n)
	}
	for _, i := range p.loose {
		n, err := s.planGroup(p, &b.Groups[i])
		if err != nil {
			return nil, err
		}
		if alone {
			p.top = *n
			return p, nil
		}
		p.top.nest(&p.wire, n)
	}
	return p, nil
}

// enlist puts a group with those it shares its comparison of the catalogue with. Batches have
// few cohorts, mostly one.
func (p *plan) enlist(i int, g *reserve.Group) {
	if g.Catalog == reserve.AnyCatalog && !g.NoLine {
		p.loose = append(p.loose, i)
		return
	}
	for j := range p.cohorts {
		if f := &p.cohorts[j]; f.catalog == g.Catalog && f.tenant == g.Tenant && f.noLine == g.NoLine {
			f.groups = append(f.groups, i)
			return
		}
	}
	p.cohorts = append(p.cohorts, cohort{g.Tenant, g.Catalog, g.NoLine, []int{i}})
}

func (s *Store) planCohort(p *plan, b *reserve.Batch, f *cohort) (*node, error) {
	n := &node{cmps: make([]*pb.Compare, 0, 2), then: make([]*pb.RequestOp, 0, len(f.groups))}
	if f.catalog != reserve.AnyCatalog {
		key := s.keyIn(p, reserve.Ref{Tenant: f.tenant, Kind: reserve.RefCatalog})
		n.cmps = append(n.cmps, p.wire.compare(key, reserve.ModIs, f.catalog))
	}
	if f.noLine {
		from := s.keys.family(f.tenant, reserve.RefTicket)
		c := p.wire.compare([]byte(from), reserve.CreateIs, 0)
		c.RangeEnd = []byte(end(from))
		n.cmps = append(n.cmps, c)
	}
	for _, i := range f.groups {
		child, err := s.planGroup(p, &b.Groups[i])
		if err != nil {
			return nil, err
		}
		n.nest(&p.wire, child)
	}
	return n, nil
}

func (s *Store) planGroup(p *plan, g *reserve.Group) (*node, error) {
	n := &node{cmps: make([]*pb.Compare, len(g.Guards))}
	ops := make([]*pb.RequestOp, len(g.Writes)+len(g.Reads))
	n.then, n.or = ops[:len(g.Writes):len(g.Writes)], ops[len(g.Writes):]
	for i := range g.Guards {
		gd := &g.Guards[i]
		if gd.Cond == reserve.NoneFrom {
			first := gd.Ref
			first.N = gd.Rev
			n.cmps[i] = p.wire.compare(s.keyIn(p, first), reserve.CreateIs, 0)
			n.cmps[i].RangeEnd = s.keyIn(p, gd.Ref)
			continue
		}
		n.cmps[i] = p.wire.compare(s.keyIn(p, gd.Ref), gd.Cond, gd.Rev)
	}
	for i := range g.Writes {
		op, err := s.write(p, &g.Writes[i])
		if err != nil {
			return nil, err
		}
		n.then[i] = op
	}
	for i, r := range g.Reads {
		n.or[i] = p.wire.get(s.keyIn(p, r))
	}
	n.spread(&p.wire)
	return n, nil
}

// wide is from how many puts on a group's are spread. Groups of the desk stay below it.
const wide = 64

// spread puts many writes into nested transactions that compare nothing, as many as each has
// writes. They are still one transaction, at one revision; but etcd counts a level and the
// widest path below it, not all there is: 4,000 writes count 127 operations, and a limits file
// of thousands fits under the 128 that a cluster takes by default (ADR 14).
func (n *node) spread(w *wire) {
	writes := n.then
	if len(writes) <= wide {
		return
	}
	size := 1
	for size*size < len(writes) {
		size++
	}
	n.then = make([]*pb.RequestOp, 0, size)
	for part := range slices.Chunk(writes, size) {
		n.then = append(n.then, w.txn(nil, part, nil))
	}
	n.below = size
}

func (s *Store) write(p *plan, w *reserve.Write) (*pb.RequestOp, error) {
	key := s.keyIn(p, w.Ref)
	if w.Value == nil {
		return p.wire.drop(key), nil
	}
	from := len(p.buf)
	var err error
	if p.buf, err = encode(p.buf, w.Ref.Kind, w.Value); err != nil {
		return nil, err
	}
	return p.wire.put(key, p.buf[from:len(p.buf):len(p.buf)], int64(w.Lease)), nil
}

// roomFor is about how many bytes the keys and values of b take.
func roomFor(b *reserve.Batch) int {
	const key, value = 64, 128
	n := key
	for i := range b.Groups {
		g := &b.Groups[i]
		n += (len(g.Guards)+len(g.Reads))*key + len(g.Writes)*(key+value)
	}
	return n
}

// keyIn spells a key into the batch's buffer. What was spelt before stays where it is when the
// buffer moves.
func (s *Store) keyIn(p *plan, r reserve.Ref) []byte {
	from := len(p.buf)
	p.buf = s.keys.append(p.buf, r)
	return p.buf[from:len(p.buf):len(p.buf)]
}
