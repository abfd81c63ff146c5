package store

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/metadata"

	"github.com/holdfast-dev/holdfast/reserve"
)

// historyWithin bounds one History. What was told until then was told in order; the caller goes
// on from there.
const historyWithin = 10 * time.Second

// historyStream is what sets the stream of a History apart: etcd's client puts watches of equal
// metadata on one stream, and on one stream a watch that catches up keeps the others from being
// told how far they are.
const historyStream = "holdfast-history"

var histories atomic.Int64

// History is reserve.Historian's.
//
// Cost: a watch of its own from after on, over the tenant's keys, and one decoded value for each
// change of ours. An answer that was told in part, because tell had enough, is read again by the
// next call.
func (s *Store) History(ctx context.Context, tenant string, after, upTo int64, tell func(reserve.Update) bool) error {
	if after >= upTo {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, historyWithin)
	defer cancel()
	ctx = metadata.AppendToOutgoingContext(clientv3.WithRequireLeader(ctx), historyStream, strconv.FormatInt(histories.Add(1), 10))
	prefix := s.keys.tenant(tenant)
	answers := s.watcher.Watch(ctx, prefix, clientv3.WithRange(end(prefix)), clientv3.WithRev(after+1))
	err := s.past(ctx, answers, after, upTo, tell)
	s.metrics.count("history", err)
	return err
}

// past takes a watch's answers until all up to upTo has been told.
func (s *Store) past(ctx context.Context, answers clientv3.WatchChan, after, upTo int64, tell func(reserve.Update) bool) error {
	wait := nudgeAfter
	ask := time.NewTimer(wait)
	defer ask.Stop()
	for {
		select {
		case <-ctx.Done():
			return readError("history", context.Cause(ctx))
		case <-ask.C:
			// etcd leaves the question unanswered while the watch is catching up.
			_ = s.watcher.RequestProgress(ctx)
			wait = min(2*wait, nudgeAtMost)
			ask.Reset(wait)
		case a, ok := <-answers:
			if !ok {
				return readError("history", errClosed)
			}
			if err := historyError(&a); err != nil {
				return err
			}
			for events := a.Events; len(events) > 0; {
				rev, n := events[0].Kv.ModRevision, 1
				for n < len(events) && events[n].Kv.ModRevision == rev {
					n++
				}
				if rev > upTo || rev > after && !tell(s.update(rev, events[:n], func(string) {})) {
					return nil
				}
				after, events = max(after, rev), events[n:]
			}
			if after >= upTo || a.IsProgressNotify() && a.Header.GetRevision() >= upTo {
				return nil
			}
		}
	}
}

// historyError is what an answer of the watch says went wrong.
func historyError(a *clientv3.WatchResponse) error {
	switch err := a.Err(); {
	case err == nil:
		return nil
	case errors.Is(err, rpctypes.ErrCompacted):
		return fmt.Errorf("store: history: %w", &reserve.CompactedError{Rev: a.CompactRevision})
	default:
		return readError("history", err)
	}
}
