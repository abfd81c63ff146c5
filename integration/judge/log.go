package judge

import (
	"context"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// Log reads every change of a store as it happens, from the first revision on. The store must not
// be compacted meanwhile.
type Log struct {
	client *clientv3.Client
	stop   context.CancelFunc
	last   chan struct{} // closed when Finish's key was seen, or reading has failed
	replay *Replay
	err    error // set before last is closed
}

// lastKey is put by Finish: what came before it has been seen when it is.
const lastKey = "integration/last"

// Follow begins to read. Instants are counted from zero on.
func Follow(client *clientv3.Client, root string, zero time.Time) *Log {
	ctx, stop := context.WithCancel(context.Background())
	l := &Log{client: client, stop: stop, last: make(chan struct{}), replay: NewReplay(root)}
	go func() {
		defer close(l.last)
		l.err = l.read(ctx, zero)
	}()
	return l
}

func (l *Log) read(ctx context.Context, zero time.Time) error {
	for change := range l.client.Watch(ctx, "", clientv3.WithPrefix(), clientv3.WithRev(1)) {
		if err := change.Err(); err != nil {
			return fmt.Errorf("the history cannot be read: %w", err)
		}
		at := time.Since(zero)
		for _, e := range change.Events {
			if string(e.Kv.Key) == lastKey {
				return nil
			}
			l.replay.Take(Change{
				Revision: e.Kv.ModRevision, Created: e.Kv.CreateRevision, Key: string(e.Kv.Key), Value: string(e.Kv.Value),
				Deleted: e.Type == clientv3.EventTypeDelete, At: at,
			})
		}
	}
	return fmt.Errorf("the history ended: %w", context.Cause(ctx))
}

// Finish reads to the end of what stands in the store now.
func (l *Log) Finish(ctx context.Context) (Seen, error) {
	defer l.Stop()
	if _, err := l.client.Put(ctx, lastKey, ""); err != nil {
		return Seen{}, err
	}
	select {
	case <-l.last:
		return l.replay.End(), l.err
	case <-ctx.Done():
		return Seen{}, fmt.Errorf("the history was not read to its end: %w", context.Cause(ctx))
	}
}

// Stop ends the reading, and returns when it has ended.
func (l *Log) Stop() {
	l.stop()
	<-l.last
}
