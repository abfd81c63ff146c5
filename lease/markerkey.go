package lease

import (
	"context"
	"errors"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// makeTries bounds how often a marker is made: one try may find a dead lease, one another's
// marker, and the third succeeds.
const makeTries = 3

// makeMarker creates the marker. One that stands already is never taken over: it may be kept
// fresh by an earlier process of the same name that is only asleep, for which it would go on
// vouching. It is deleted, so that the next try creates another. The caller has the turn.
func (w *Wheel) makeMarker(ctx context.Context) (int64, error) {
	err := errTaken
	for range makeTries {
		id, grantErr := w.markerLease(ctx)
		if grantErr != nil {
			return 0, grantErr
		}
		var found int64
		found, err = w.putMarker(ctx, 0, id)
		switch {
		case errors.Is(err, errDead):
			continue
		case err != nil:
			return 0, err
		case found > 0:
			w.mu.Lock()
			w.marker.rev, w.marker.doubted = found, false
			w.mu.Unlock()
			return found, nil
		}
		if err := w.deleteMarker(ctx, -found); err != nil {
			return 0, err
		}
		err = translate("make the marker", errTaken)
	}
	return 0, err
}

// putMarker puts the marker on lease id if its create revision is rev, 0 for absent. It returns
// the create revision of what was put, or, negated, of what stands there instead (0: nothing).
// When the lease has ended the error is errDead and the lease is not used again.
func (w *Wheel) putMarker(ctx context.Context, rev int64, id ID) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, putWithin)
	defer cancel()
	key, value := w.cfg.MarkerKey, []byte(nil)
	if w.cfg.MarkerValue != nil {
		value = w.cfg.MarkerValue(w.cfg.Now())
	}
	resp, err := w.cfg.KV.Txn(ctx).
		If(clientv3.Compare(clientv3.CreateRevision(key), "=", rev)).
		Then(clientv3.OpPut(key, string(value), clientv3.WithLease(clientv3.LeaseID(id)))).
		Else(clientv3.OpGet(key, clientv3.WithKeysOnly())).
		Commit()
	if errors.Is(err, rpctypes.ErrLeaseNotFound) {
		w.mu.Lock()
		w.marker.lease = 0
		w.mu.Unlock()
		return 0, errDead
	}
	if err != nil {
		return 0, translate("put the marker", err)
	}
	if !resp.Succeeded {
		if kvs := resp.Responses[0].GetResponseRange().Kvs; len(kvs) > 0 {
			return -kvs[0].CreateRevision, nil
		}
		return 0, nil
	}
	w.mu.Lock()
	w.marker.on = id
	w.mu.Unlock()
	if rev == 0 {
		rev = resp.Header.Revision
	}
	return rev, nil
}

// deleteMarker deletes the marker that has the create revision rev, if it still stands.
func (w *Wheel) deleteMarker(ctx context.Context, rev int64) error {
	ctx, cancel := context.WithTimeout(ctx, putWithin)
	defer cancel()
	_, err := w.cfg.KV.Txn(ctx).
		If(clientv3.Compare(clientv3.CreateRevision(w.cfg.MarkerKey), "=", rev)).
		Then(clientv3.OpDelete(w.cfg.MarkerKey)).
		Commit()
	if err != nil {
		return translate("delete another's marker", err)
	}
	return nil
}

// markerLease grants a lease for the marker, or returns the last one while it is young, so
// that a marker that is lost again and again does not cost a grant each time.
func (w *Wheel) markerLease(ctx context.Context) (ID, error) {
	w.mu.Lock()
	id, at := w.youngLease(), w.clock.read()
	w.mu.Unlock()
	if id != 0 {
		return id, nil
	}
	id, err := w.call(ctx, useMarker, MarkerTTL, putWithin)
	if err != nil {
		return 0, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.marker.lease, w.marker.at = id, at
	return id, nil
}
