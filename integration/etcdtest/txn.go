package etcdtest

import clientv3 "go.etcd.io/etcd/client/v3"

// txnParts is what a transaction consists of. Nil means that the part was never given.
type txnParts struct {
	cmps     []clientv3.Cmp
	then, or []clientv3.Op
}

// on gives the parts to a transaction that has none yet.
func (p txnParts) on(t clientv3.Txn) clientv3.Txn {
	if p.cmps != nil {
		t = t.If(p.cmps...)
	}
	if p.then != nil {
		t = t.Then(p.then...)
	}
	if p.or != nil {
		t = t.Else(p.or...)
	}
	return t
}

// recordedTxn gathers the parts of a transaction and hands them to commit. The real one is made
// only then, because it is bound to its context when it is made, and a late one needs another.
type recordedTxn struct {
	parts  txnParts
	commit func(txnParts) (*clientv3.TxnResponse, error)
}

// If implements clientv3.Txn.
func (t *recordedTxn) If(cs ...clientv3.Cmp) clientv3.Txn {
	t.parts.cmps = append([]clientv3.Cmp{}, cs...)
	return t
}

// Then implements clientv3.Txn.
func (t *recordedTxn) Then(ops ...clientv3.Op) clientv3.Txn {
	t.parts.then = append([]clientv3.Op{}, ops...)
	return t
}

// Else implements clientv3.Txn.
func (t *recordedTxn) Else(ops ...clientv3.Op) clientv3.Txn {
	t.parts.or = append([]clientv3.Op{}, ops...)
	return t
}

// Commit implements clientv3.Txn.
func (t *recordedTxn) Commit() (*clientv3.TxnResponse, error) { return t.commit(t.parts) }
