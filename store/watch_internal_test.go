package store

import (
	"fmt"
	"log/slog"
	"reflect"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-dev/holdfast/reserve"
)

func event(rev int64, key string) *clientv3.Event {
	return &clientv3.Event{Type: clientv3.EventTypePut, Kv: &mvccpb.KeyValue{
		Key: []byte(DefaultRoot + key), Value: []byte{version, 1}, CreateRevision: rev, ModRevision: rev,
	}}
}

func deletion(rev int64, key string) *clientv3.Event {
	return &clientv3.Event{Type: clientv3.EventTypeDelete, Kv: &mvccpb.KeyValue{Key: []byte(DefaultRoot + key), ModRevision: rev}}
}

// Answers of the watch become one update a revision; what was told before is left out. FAULTS
// section 1.2, "lost, duplicate, old events".
func TestTake_TellsEachRevisionOnce(t *testing.T) {
	t.Parallel()
	const a, b = "t/a/catalog", "t/b/catalog"
	answer := func(rev int64, events ...*clientv3.Event) clientv3.WatchResponse {
		return clientv3.WatchResponse{Header: &pb.ResponseHeader{Revision: rev}, Events: events}
	}
	for name, c := range map[string]struct {
		answers []clientv3.WatchResponse
		want    []string
	}{
		"each revision is one update": {
			[]clientv3.WatchResponse{answer(13, event(11, a), event(11, b), deletion(12, a), event(13, a), deletion(13, b))},
			[]string{"11 +a +b", "12 -a", "13 +a -b"},
		},
		"the header says nothing while there are events": {
			[]clientv3.WatchResponse{answer(99, event(11, a)), answer(99, event(12, a))},
			[]string{"11 +a", "12 +a"},
		},
		"old events are left out": {
			[]clientv3.WatchResponse{answer(11, event(9, a), event(10, b), event(11, a)), answer(12, event(11, b), event(12, b))},
			[]string{"11 +a", "12 +b"},
		},
		"progress moves on, never back": {
			[]clientv3.WatchResponse{answer(10), answer(15), answer(14), answer(16, event(16, a))},
			[]string{"15", "16 +a"},
		},
		"a watch that was created tells nothing": {
			[]clientv3.WatchResponse{{Header: &pb.ResponseHeader{Revision: 20}, Created: true}},
			nil,
		},
		"keys of others are no changes": {
			[]clientv3.WatchResponse{answer(12, event(11, "t/a/line/x"), event(12, "elsewhere"), event(12, a))},
			[]string{"11", "12 +a"},
		},
	} {
		var got []string
		f, _ := newFollower(t, nil)
		f.store.keys, f.tenants = testKeys, map[string]struct{}{}
		f.store.faults.log = slog.New(slog.DiscardHandler)
		f.tell = func(u reserve.Update) {
			line := fmt.Sprint(u.Rev)
			for _, e := range u.Entries {
				line += " +" + e.Ref.Tenant
			}
			for _, d := range u.Deleted {
				line += " -" + d.Ref.Tenant
				if d.Rev != u.Rev {
					t.Errorf("%s: deleted at %d, told at %d", name, d.Rev, u.Rev)
				}
			}
			if at := f.told.Load(); at >= u.Rev {
				t.Errorf("%s: the cursor is at %d before %d has been told", name, at, u.Rev)
			}
			got = append(got, line)
		}
		for i := range c.answers {
			f.take(&c.answers[i])
		}
		if !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}
