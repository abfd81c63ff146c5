package store

import (
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/holdfast-dev/holdfast/reserve"
)

// readResult follows the plan through the answer. An answer of another shape is an error: it
// may have happened.
func (s *Store) readResult(p *plan, b *reserve.Batch, top *pb.TxnResponse, res *reserve.Result) error {
	if b.Marker != 0 && !top.Succeeded {
		*res = reserve.Result{Rev: res.Rev, MarkerGone: true}
		return nil
	}
	child := func(i int) *pb.TxnResponse { return nested(top, i) }
	if p.alone(b) {
		child = func(int) *pb.TxnResponse { return top }
	}
	for i := range p.cohorts {
		if err := s.readCohort(b, &p.cohorts[i], child(i), res); err != nil {
			return err
		}
	}
	for i, g := range p.loose {
		if err := s.readGroup(&b.Groups[g], child(len(p.cohorts)+i), &res.Outcomes[g]); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) readCohort(b *reserve.Batch, f *cohort, resp *pb.TxnResponse, res *reserve.Result) error {
	if resp == nil {
		return errShape
	}
	for i, g := range f.groups {
		if !resp.Succeeded {
			res.Outcomes[g].Moved = true
			continue
		}
		if err := s.readGroup(&b.Groups[g], nested(resp, i), &res.Outcomes[g]); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) readGroup(g *reserve.Group, resp *pb.TxnResponse, o *reserve.Outcome) error {
	switch {
	case resp == nil:
		return errShape
	case resp.Succeeded:
		o.Committed = true
		return nil
	case len(resp.Responses) != len(g.Reads):
		return errShape
	}
	o.Seen = make([]reserve.Entry, len(g.Reads))
	for i, r := range g.Reads {
		o.Seen[i] = s.found(r, resp.Responses[i].GetResponseRange().GetKvs())
	}
	return nil
}

// nested is the answer to the i-th nested transaction; nil when there is none.
func nested(resp *pb.TxnResponse, i int) *pb.TxnResponse {
	if i >= len(resp.Responses) {
		return nil
	}
	return resp.Responses[i].GetResponseTxn()
}
