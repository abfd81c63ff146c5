package etcdtest

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
)

// Members is the size of a cluster.
const Members = 3

// Cluster is three embedded members that talk over loopback.
type Cluster struct {
	members [Members]*Server
	relays  [Members]*relay
}

// Three starts a cluster of three members with client listeners and returns when all serve,
// each within ReadyWithin. The test's cleanup stops it. Dir, when given, is the parent of the
// members' directories.
func Three(t testing.TB, opts ...Option) *Cluster {
	t.Helper()
	o := gather(t, opts)
	o.listen = true
	log := logger(t, o.logToTest)
	c := &Cluster{}
	var initial []string
	for i := range Members {
		c.relays[i] = newRelay(t)
		initial = append(initial, fmt.Sprintf("%s=http://%s", memberName(i), c.relays[i].addr()))
	}
	for i := range Members {
		mine := o
		mine.dir = filepath.Join(o.dir, memberName(i))
		c.members[i] = &Server{cfg: func() *embed.Config {
			advertise := mustURL("http://" + c.relays[i].addr())
			return config(mine, log, memberName(i), mustURL("http://"+loopbackAnyPort), advertise, strings.Join(initial, ","))
		}}
	}
	t.Cleanup(c.stopAll)
	for i := range Members {
		c.launch(t, i)
	}
	for i := range Members {
		if err := c.members[i].ready(); err != nil {
			t.Fatalf("etcdtest: member %d: %v", i, err)
		}
	}
	return c
}

// Member is member i, from 0. Stop and start it by the cluster's methods, so that its peers
// find it again.
func (c *Cluster) Member(i int) *Server { return c.members[i] }

// Stop stops member i; its clients are dead from then on.
func (c *Cluster) Stop(i int) {
	c.relays[i].point("")
	c.members[i].Stop()
}

// Start starts the stopped member i on its old data and returns when it serves. With one
// member running alone that cannot happen: use StartAll when a majority is down.
func (c *Cluster) Start(t testing.TB, i int) {
	t.Helper()
	c.launch(t, i)
	if err := c.members[i].ready(); err != nil {
		t.Fatalf("etcdtest: member %d: %v", i, err)
	}
}

// StartAll starts all stopped members at once and returns when every one serves.
func (c *Cluster) StartAll(t testing.TB) {
	t.Helper()
	for i := range Members {
		if c.members[i].Client() == nil {
			c.launch(t, i)
		}
	}
	for i := range Members {
		if err := c.members[i].ready(); err != nil {
			t.Fatalf("etcdtest: member %d: %v", i, err)
		}
	}
}

// GRPC dials the running members; the test's cleanup closes the client.
func (c *Cluster) GRPC(t testing.TB) *clientv3.Client {
	t.Helper()
	var endpoints []string
	for _, m := range c.members {
		if e := m.Endpoint(); e != "" {
			endpoints = append(endpoints, e)
		}
	}
	return dial(t, endpoints...)
}

// Leader is the number of the member that leads and whom the running members agree on. It
// waits for an election, at most ReadyWithin, and ends the test when none is won.
func (c *Cluster) Leader(t testing.TB) int {
	t.Helper()
	deadline := time.NewTimer(ReadyWithin)
	defer deadline.Stop()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if i, ok := c.leader(); ok {
			return i
		}
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatalf("etcdtest: no leader within %v", ReadyWithin)
		}
	}
}

// MoveLeader makes member to the leader, gracefully.
func (c *Cluster) MoveLeader(t testing.TB, to int) {
	t.Helper()
	from := c.Leader(t)
	if from == to {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), ReadyWithin)
	defer cancel()
	_, err := c.members[from].Client().MoveLeader(ctx, uint64(c.members[to].etcd.Server.MemberID()))
	if err != nil {
		t.Fatalf("etcdtest: move leader from %d to %d: %v", from, to, err)
	}
}

// leader reports the leader when all running members name the same running one.
func (c *Cluster) leader() (int, bool) {
	found, running := -1, 0
	var named uint64
	for i, m := range c.members {
		m.mu.Lock()
		e := m.etcd
		m.mu.Unlock()
		if e == nil {
			continue
		}
		running++
		lead := e.Server.Lead()
		if lead == 0 || (running > 1 && lead != named) {
			return 0, false
		}
		named = lead
		if uint64(e.Server.MemberID()) == lead {
			found = i
		}
	}
	return found, found >= 0
}

// launch starts member i and points its relay at the port it got.
func (c *Cluster) launch(t testing.TB, i int) {
	t.Helper()
	if err := c.members[i].launch(); err != nil {
		t.Fatalf("etcdtest: member %d: %v", i, err)
	}
	c.relays[i].point(c.members[i].etcd.Peers[0].Addr().String())
}

// stopAll stops the members side by side: one alone would wait for peers that are gone.
func (c *Cluster) stopAll() {
	done := make(chan struct{}, Members)
	for i := range Members {
		go func() {
			c.Stop(i)
			done <- struct{}{}
		}()
	}
	for range Members {
		<-done
	}
}

func memberName(i int) string { return fmt.Sprintf("m%d", i) }
