// Package client is how Go workers use Holdfast: reserve, extend, settle, and stop in time. It
// imports the standard library and package api, nothing else.
//
//	c, err := client.New(client.FromEnv())
//	err = c.Do(ctx, client.Request{Action: "export", Wait: 2 * time.Minute},
//		func(ctx context.Context, h *client.Hold) error {
//			return export(ctx, h.Slot(), h.Fence())
//		})
//
// It knows how to ask until there is an answer, when to stop believing in a hold, and what the
// server's codes mean. It knows nothing of limits, windows or stores: those are the server's.
//
// # What a worker may rely on
//
// A hold is extended for as long as it is neither settled nor lost. Its local deadline is the
// moment before the act that granted or last extended it was first sent, plus its TTL, less
// max(1 s, 5 % of the TTL), on whichever of the monotonic and the wall clock has moved further.
// At that deadline, or as soon as the server says that the hold is gone, it is lost: its
// context ends with a cause that is ErrHoldLost, before the server can give the slot to
// somebody else.
//
//	held ──a try to extend fails──▶ unsure ──a try succeeds──▶ held
//	held, unsure ──deadline, 410, 404──▶ lost
//	held, unsure ──Commit, Release, Close──▶ ended
//
// What no client can do is stop a process that does not run. A worker that was stopped past its
// deadline finds its context ended when it goes on, but may have one side effect under way: pass
// Slot and Fence to what the work changes, and ask Hold.Err right before each side effect.
//
// Every act carries one Idempotency-Key through all its retries, so that an answer that was lost
// never takes a second slot. Retries honour Retry-After, are spread at random, and end: with the
// context, with Request.Wait, or with Config.Timeout.
package client
