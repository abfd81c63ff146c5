package main

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-dev/holdfast/api"
)

// memberWithin bounds the question to one member; all are asked at once.
const memberWithin = time.Second

// members asks every member of etcd how it is, under the endpoints we know: what a member says
// of its own address may be of use to others only. Nil when nobody tells who is a member;
// without a majority nobody does.
func (b *backend) members(ctx context.Context) []api.Member {
	ctx, cancel := context.WithTimeout(ctx, 2*memberWithin)
	defer cancel()
	list, err := b.client.MemberList(ctx)
	if err != nil {
		return nil
	}
	answers := b.askMembers(ctx)
	leader := uint64(0)
	for _, a := range answers {
		leader = cmp.Or(a.Leader, leader)
	}
	// With one endpoint a member, whoever did not answer is away. With another number of them (one
	// for all, or an in-process client) it was perhaps not asked.
	asked := len(b.endpoints) == len(list.Members)
	out := make([]api.Member, len(list.Members))
	for i, m := range list.Members {
		out[i] = api.Member{Name: m.Name, Leader: m.ID == leader}
		if a := answers[m.ID]; a != nil {
			out[i].Answers, out[i].Revision, out[i].FileBytes = new(true), a.Header.GetRevision(), a.DbSize
		} else if asked {
			out[i].Answers = new(false)
		}
	}
	slices.SortFunc(out, func(x, y api.Member) int { return cmp.Compare(x.Name, y.Name) })
	return out
}

// askMembers asks each endpoint, and tells the answers by the member that gave them.
func (b *backend) askMembers(ctx context.Context) map[uint64]*clientv3.StatusResponse {
	endpoints := b.endpoints
	if len(endpoints) == 0 {
		endpoints = []string{""} // an in-process client's own
	}
	answers := map[uint64]*clientv3.StatusResponse{}
	var mu sync.Mutex
	var all sync.WaitGroup
	for _, endpoint := range endpoints {
		all.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, memberWithin)
			defer cancel()
			if status, err := b.client.Status(ctx, endpoint); err == nil {
				mu.Lock()
				answers[status.Header.GetMemberId()] = status
				mu.Unlock()
			}
		})
	}
	all.Wait()
	return answers
}
