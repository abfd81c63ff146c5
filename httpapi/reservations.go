package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-dev/holdfast/api"
	"github.com/holdfast-dev/holdfast/auth"
	"github.com/holdfast-dev/holdfast/limits"
	"github.com/holdfast-dev/holdfast/reserve"
)

// hold is the reservation the path names, for this caller. What is no id is not found, like
// an id that nobody has.
func (c *call) hold() (reserve.HoldRef, error) {
	return c.holdOf(c.params.Param("id"))
}

func (c *call) holdOf(text string) (reserve.HoldRef, error) {
	id, err := reserve.ParseID(text)
	if err != nil {
		return reserve.HoldRef{}, reserve.ErrNotFound
	}
	return reserve.HoldRef{ID: id, By: c.caller()}, nil
}

// held answers 200 with the reservation as it stands.
func held(r reserve.Reservation, err error) (int, any, error) {
	if err != nil {
		return 0, nil, err
	}
	view := reservationView(&r, nil)
	return http.StatusOK, &view, nil
}

// getReservation answers GET /v1/reservations/{id}.
//
// Access: one's own subject's, what one made with act-for, or any with holds:read; else 404.
func (s *server) getReservation(ctx context.Context, c *call) (int, any, error) {
	ref, err := c.hold()
	if err != nil {
		return 0, nil, err
	}
	return held(s.Service.Get(ctx, ref))
}

// extend answers POST /v1/reservations/{id}/extend. Access: as getReservation, and the right
// to act: with holds:read alone it is 403.
func (s *server) extend(ctx context.Context, c *call, in *api.ExtendRequest) (int, any, error) {
	ref, err := c.hold()
	if err != nil {
		return 0, nil, err
	}
	return held(s.Service.Extend(ctx, ref, seconds(in.TTLSeconds)))
}

// seconds is a ttl of the wire; 0 for one left out.
func seconds(n *int64) time.Duration {
	if n == nil {
		return 0
	}
	return time.Duration(*n) * time.Second
}

// commit answers POST /v1/reservations/{id}/commit. Access: as extend.
func (s *server) commit(ctx context.Context, c *call, in *api.CommitRequest) (int, any, error) {
	ref, err := c.hold()
	if err != nil {
		return 0, nil, err
	}
	actual := int64(-1) // the estimate
	if in.Cost != nil {
		actual = *in.Cost
	}
	return held(s.Service.Commit(ctx, ref, actual))
}

// release answers POST /v1/reservations/{id}/release. Access: as extend.
func (s *server) release(ctx context.Context, c *call, in *api.ReleaseRequest) (int, any, error) {
	ref, err := c.hold()
	if err != nil {
		return 0, nil, err
	}
	return held(s.Service.Release(ctx, ref, in.Reason))
}

// heartbeat answers POST /v1/heartbeats: each id is extended by itself, all at once, so that
// they share a transaction and one lost hold does not fail the rest. Access: as extend.
func (s *server) heartbeat(ctx context.Context, c *call, in *api.HeartbeatRequest) (int, any, error) {
	results := make([]api.HeartbeatResult, len(in.IDs))
	var all sync.WaitGroup
	var thrown atomic.Pointer[string] // a panic belongs to the request, where the edge catches it
	for i, id := range in.IDs {
		all.Go(func() {
			defer func() {
				if p := recover(); p != nil {
					thrown.Store(ptr(fmt.Sprintf("heartbeat: %v\n%s", p, debug.Stack())))
				}
			}()
			results[i] = s.beat(ctx, c, id, seconds(in.TTLSeconds))
		})
	}
	all.Wait()
	if p := thrown.Load(); p != nil {
		panic(*p)
	}
	return http.StatusOK, &api.HeartbeatAnswer{Results: results}, nil
}

func (s *server) beat(ctx context.Context, c *call, id string, ttl time.Duration) api.HeartbeatResult {
	var r reserve.Reservation
	ref, err := c.holdOf(id)
	if err == nil {
		r, err = s.Service.Extend(ctx, ref, ttl)
	}
	if err != nil {
		p := problemOf(err)
		if p.Code == api.Internal {
			s.log.Error("heartbeat failed", "request", c.out.Get("X-Request-Id"), "cause", err)
		}
		p.RequestID, p.Instance = c.id, instanceOf(c.id)
		return api.HeartbeatResult{ID: id, Problem: &p}
	}
	return api.HeartbeatResult{ID: id, OK: true, ExpiresAt: api.AtPtr(r.Expires), TTLSeconds: ptr(secondsDown(r.Left))}
}

// verifyFence answers POST /v1/fences/verify.
//
// Access: one's own subject; any other with act-for or holds:read.
func (s *server) verifyFence(ctx context.Context, c *call, in *api.FenceRequest) (int, any, error) {
	subject := limits.Subject{Kind: in.Subject.Kind, ID: in.Subject.ID}
	if !c.who.Has(auth.HoldsRead) {
		if err := mayActFor(c.who, subject); err != nil {
			return 0, nil, err
		}
	}
	current, err := s.Service.VerifyFence(ctx, c.who.Tenant, in.Limit, subject, in.Slot, in.Fence)
	if err != nil {
		return 0, nil, err
	}
	return http.StatusOK, &api.FenceAnswer{Current: current}, nil
}
