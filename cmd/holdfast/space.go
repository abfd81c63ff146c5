package main

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Bounds of the embedded store's space. Parts are of the quota, and judge bytes in use, not
// the size of the file, which never shrinks by itself.
const (
	keepHistory    = 60 * time.Second // so that a watch that lags finds what it missed
	keepShort      = 10 * time.Second // when space is short
	compactEvery   = 30 * time.Second
	lookEvery      = 5 * time.Second // at bytes in use; compaction comes sooner when they grew
	growthPercent  = 10
	warnPercent    = 70
	shortenPercent = 85
	fullPercent    = 95 // the rest is for extends and settlements
	curedPercent   = 80 // an alarm is lifted only below this

	defragFilePercent = 80 // at start: the file is above this,
	defragUsePercent  = 50 // and what is in use below that
)

// spaceKeeper drops old history of the embedded etcd and watches how full it is.
type spaceKeeper struct {
	client *clientv3.Client
	log    *slog.Logger

	marks     []mark // revisions seen, oldest first; at most keepHistory/lookEvery and one
	compacted int64  // revision
	last      time.Time
	usedThen  int64 // bytes in use after the last compaction
	warned    bool

	used, quota, file atomic.Int64
}

// mark is the revision of the store at an instant.
type mark struct {
	at  time.Time
	rev int64
}

func newSpaceKeeper(client *clientv3.Client, log *slog.Logger, metrics prometheus.Registerer) (*spaceKeeper, error) {
	k := &spaceKeeper{client: client, log: log}
	gauge := func(name, help string, from *atomic.Int64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 { return float64(from.Load()) })
	}
	return k, errors.Join(
		metrics.Register(gauge("holdfast_etcd_used_bytes", "Bytes in use in the embedded store.", &k.used)),
		metrics.Register(gauge("holdfast_etcd_quota_bytes", "Bytes the embedded store may use.", &k.quota)),
		metrics.Register(gauge("holdfast_etcd_file_bytes", "Size of the embedded store's file, in bytes.", &k.file)),
	)
}

// full reports whether so little space is left that new holds must be refused.
func (k *spaceKeeper) full() bool { return k.percent() >= fullPercent }

// percent is how much of the quota is in use.
func (k *spaceKeeper) percent() int64 {
	quota := k.quota.Load()
	if quota == 0 {
		return 0
	}
	return k.used.Load() * 100 / quota
}

// prepare looks for the first time and, when the file is large and mostly empty, makes it
// small again. That blocks everything (0.65 s for 131 MB), so it is done before serving only.
func (k *spaceKeeper) prepare(ctx context.Context) error {
	if _, err := k.look(ctx); err != nil {
		return err
	}
	quota := k.quota.Load()
	if k.file.Load()*100 <= quota*defragFilePercent || k.used.Load()*100 >= quota*defragUsePercent {
		return nil
	}
	k.log.Info("etcd: making the file smaller before serving", "file_bytes", k.file.Load(), "used_bytes", k.used.Load())
	_, err := k.client.Defragment(ctx, "")
	return err
}

// run looks every lookEvery until ctx ends.
func (k *spaceKeeper) run(ctx context.Context) error {
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for {
		if err := k.step(ctx, time.Now()); err != nil && ctx.Err() == nil {
			k.log.Warn("etcd: keeping its space failed", "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// step is one look, and a compaction when it is due: every compactEvery, or sooner when bytes
// in use grew by growthPercent.
func (k *spaceKeeper) step(ctx context.Context, now time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, lookEvery)
	defer cancel()
	rev, err := k.look(ctx)
	if err != nil {
		return err
	}
	k.marks = append(k.marks, mark{now, rev})
	k.warn()
	if k.usedThen == 0 {
		k.usedThen = k.used.Load()
	}
	grown := k.used.Load()*100 > k.usedThen*(100+growthPercent)
	if k.last.IsZero() || now.Sub(k.last) >= compactEvery || grown {
		if err := k.compact(ctx, now); err != nil {
			return err
		}
	}
	return k.cure(ctx)
}

// look reads how full the store is, and its revision.
func (k *spaceKeeper) look(ctx context.Context) (rev int64, err error) {
	status, err := k.client.Status(ctx, "")
	if err != nil {
		return 0, err
	}
	k.used.Store(status.DbSizeInUse)
	k.quota.Store(status.DbSizeQuota)
	k.file.Store(status.DbSize)
	return status.Header.Revision, nil
}

// warn says once, in each direction, that space becomes short.
func (k *spaceKeeper) warn() {
	short := k.percent() >= warnPercent
	if short == k.warned {
		return
	}
	k.warned = short
	if short {
		k.log.Warn("etcd: space becomes short", "used_percent", k.percent(), "refused_from_percent", fullPercent)
		return
	}
	k.log.Info("etcd: there is space again", "used_percent", k.percent())
}

// compact drops history older than is kept.
func (k *spaceKeeper) compact(ctx context.Context, now time.Time) error {
	keep := keepHistory
	if k.percent() >= shortenPercent {
		keep = keepShort
	}
	target := int64(0)
	for len(k.marks) > 0 && now.Sub(k.marks[0].at) >= keep {
		target, k.marks = k.marks[0].rev, k.marks[1:]
	}
	k.last = now
	if target <= k.compacted {
		return nil
	}
	if _, err := k.client.Compact(ctx, target); err != nil && !errors.Is(err, rpctypes.ErrCompacted) {
		return err
	}
	k.compacted, k.usedThen = target, k.used.Load()
	return nil
}

// cure lifts the alarm of a full store once there is space. Compaction alone does not: the
// file must shrink too, and the alarm be lifted by hand (etcd #11309).
func (k *spaceKeeper) cure(ctx context.Context) error {
	if k.file.Load() < k.quota.Load() {
		return nil // no alarm can have been raised
	}
	alarms, err := k.client.AlarmList(ctx)
	if err != nil || k.percent() >= curedPercent {
		return err
	}
	for _, alarm := range alarms.Alarms {
		if alarm.Alarm != etcdserverpb.AlarmType_NOSPACE {
			continue
		}
		if _, err := k.client.Defragment(ctx, ""); err != nil {
			return err
		}
		if _, err := k.client.AlarmDisarm(ctx, (*clientv3.AlarmMember)(alarm)); err != nil {
			return err
		}
		k.log.Warn("etcd: the alarm of a full store was lifted", "used_percent", k.percent())
	}
	return nil
}
