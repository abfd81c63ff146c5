package store

import (
	"context"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-dev/holdfast/reserve"
)

// loadTries bounds how often a read starts over, because the server takes fewer operations
// than was thought or the revision was compacted between two parts of it.
const loadTries = 8

// Load is reserve.Store's.
//
// Cost: one call; more only above MaxOps refs, all at the revision of the first. A fresh read
// that the watch stays behind makes it ask for news, in the background.
// Errors: reserve.ErrUnavailable, with the cause.
func (s *Store) Load(ctx context.Context, refs []reserve.Ref, fresh bool) (reserve.Loaded, error) {
	var loaded reserve.Loaded
	var err error
	for range loadTries {
		loaded, err = s.loadAll(ctx, refs, fresh)
		if c := classify(err); err == nil || c != tooMany && c != compacted {
			break
		}
	}
	if err != nil {
		return reserve.Loaded{}, readError("load", err)
	}
	if fresh {
		s.catchUp(loaded.Rev)
	}
	return loaded, nil
}

func (s *Store) loadAll(ctx context.Context, refs []reserve.Ref, fresh bool) (l reserve.Loaded, err error) {
	l.Entries = make([]reserve.Entry, 0, len(refs))
	for first := true; first || len(refs) > 0; first = false {
		part := refs[:min(len(refs), s.MaxOps())]
		refs = refs[len(part):]
		if l.Entries, l.Rev, err = s.loadPart(ctx, l.Entries, part, fresh, l.Rev); err != nil {
			return l, err
		}
	}
	return l, nil
}

// loadPart reads refs in one read-only transaction, at rev or, when that is 0, as of now.
//
// A read at a revision inside a transaction is dangerous only where it is applied by every
// member (etcd #18667); one that writes nothing is answered by the member that was asked.
// Later parts are linearizable even when the first was not: the member that answers them may
// be another, which has not reached rev.
func (s *Store) loadPart(
	ctx context.Context, into []reserve.Entry, refs []reserve.Ref, fresh bool, rev int64,
) ([]reserve.Entry, int64, error) {
	ctx, cancel := s.call(ctx)
	defer cancel()
	var opts []clientv3.OpOption
	if rev != 0 {
		opts = append(opts, clientv3.WithRev(rev))
	} else if !fresh {
		opts = append(opts, clientv3.WithSerializable())
	}
	ops := make([]clientv3.Op, max(len(refs), 1))
	for i, r := range refs {
		ops[i] = get(s.keys.key(r), opts...)
	}
	if len(refs) == 0 {
		ops[0] = get([]byte(s.keys.root), opts...) // no such key; a transaction without a read is never fresh
	}
	resp, err := s.kv.Txn(ctx).Then(ops...).Commit()
	s.metrics.count("load", err)
	if err != nil {
		if classify(err) == tooMany {
			s.tooManyOps(len(ops))
		}
		return into, 0, err
	}
	if len(resp.Responses) != len(ops) {
		return into, 0, errShape
	}
	if rev == 0 {
		rev = resp.Header.GetRevision()
	}
	for i, r := range refs {
		into = append(into, s.found(r, resp.Responses[i].GetResponseRange().GetKvs()))
	}
	return into, rev, nil
}

// get is clientv3.OpGet without its copy of the key.
func get(key []byte, opts ...clientv3.OpOption) clientv3.Op {
	op := clientv3.OpGet("", opts...)
	op.WithKeyBytes(key)
	return op
}

// found is the entry under r, of what a read of its key brought.
func (s *Store) found(r reserve.Ref, kvs []*mvccpb.KeyValue) reserve.Entry {
	if len(kvs) == 0 {
		return reserve.Entry{Ref: r}
	}
	return s.entry(r, kvs[0])
}

// entry decodes what stands under r. A value that cannot be read is quarantined: told, counted
// and logged, and its entry has no value.
func (s *Store) entry(r reserve.Ref, kv *mvccpb.KeyValue) reserve.Entry {
	e := reserve.Entry{Ref: r, Create: kv.CreateRevision, Mod: kv.ModRevision, Lease: reserve.LeaseID(kv.Lease)}
	e.Value, e.Fault = decode(r, kv.Value)
	if e.Fault != nil {
		s.metrics.fault(&e)
		s.faults.tell(&e)
	}
	return e
}
