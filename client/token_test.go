package client_test

import (
	"context"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/api"
	"github.com/holdfast-dev/holdfast/client"
	"github.com/holdfast-dev/holdfast/client/holdfasttest"
)

// FAULTS section 2 row 44: the token runs out in the middle of the work.
func TestToken_IsRenewedInMidWork(t *testing.T) {
	user := api.Subject{Kind: "user", ID: "u1"}
	t.Run("at 80 % of its life", func(t *testing.T) {
		inBubble(t, func(t *testing.T, s *holdfasttest.Server) {
			asked := 0
			c := with(t, s, func(cfg *client.Config) {
				cfg.TokenSource = client.TokenFunc(func(context.Context) (string, error) {
					asked++
					return s.TokenFor(user, 5*time.Minute), nil
				})
			})
			h := reserve(t, c, export)
			time.Sleep(40 * time.Minute)
			if h.State() != client.Held || c.Stats().FailedBeats != 0 || asked < 10 || asked > 11 {
				t.Errorf("after 40 min: %v, %+v, the source was asked %d times, want each 4 min", h.State(), c.Stats(), asked)
			}
			wantErr(t, "Release", h.Release(t.Context()), nil)
		}, exports(1))
	})
	t.Run("once after a refusal", func(t *testing.T) {
		inBubble(t, func(t *testing.T, s *holdfasttest.Server) {
			asked := 0
			c := with(t, s, func(cfg *client.Config) {
				cfg.TokenSource = client.TokenFunc(func(context.Context) (string, error) {
					if asked++; asked == 1 {
						return "a.token.of-yesterday", nil
					}
					return s.Token("u1"), nil
				})
			})
			h := reserve(t, c, export)
			if asked != 2 {
				t.Errorf("the source was asked %d times, want 2", asked)
			}
			wantErr(t, "Release", h.Release(t.Context()), nil)
		}, exports(1))
	})
	t.Run("never", func(t *testing.T) {
		inBubble(t, func(t *testing.T, s *holdfasttest.Server) {
			c := with(t, s, func(cfg *client.Config) { cfg.TokenSource = client.StaticToken(s.TokenFor(user, time.Minute)) })
			h := reserve(t, c, export)
			<-h.Lost() // the hold lived on, and ended in time as nobody could extend it
			wantErr(t, "Err", h.Err(), client.ErrHoldLost)
			_, err := c.Reserve(t.Context(), export)
			wantErr(t, "Reserve with it", err, client.ErrUnauthorized)
		}, exports(1))
	})
}
