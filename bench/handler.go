package main

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/holdfast-dev/holdfast/api"
	"github.com/holdfast-dev/holdfast/auth"
)

// deskless is Holdfast's way of answering with the desk left out: Echo's router, the token, the
// strict decoder, the encoder, and a fixed grant between. It does less than the real edge
// (no request ids, metrics or bounds), so what is compared with it looks slower, not faster.
func deskless(verifier *auth.Verifier) http.Handler {
	e := echo.New()
	e.HideBanner, e.HidePort = true, true
	e.IPExtractor = echo.ExtractIPDirect()
	e.POST("/v1/reservations", func(c echo.Context) error {
		ctx, cancel := context.WithTimeout(c.Request().Context(), 5*time.Second)
		defer cancel()
		who, err := verifier.Verify(ctx, strings.TrimPrefix(c.Request().Header.Get("Authorization"), "Bearer "))
		if err != nil {
			return echo.NewHTTPError(http.StatusUnauthorized, err.Error())
		}
		raw, err := io.ReadAll(io.LimitReader(c.Request().Body, api.MaxBody))
		if err != nil {
			return err
		}
		var in api.ReserveRequest
		if err := api.Decode(raw, &in); err != nil {
			return echo.NewHTTPError(http.StatusBadRequest, err.Error())
		}
		if in.Subject == nil || in.TTLSeconds == nil || who.Tenant == "" {
			return errors.New("the generator names a subject and a ttl")
		}
		return grant(c, in)
	})
	e.POST("/v1/reservations/:id/release", func(c echo.Context) error { return c.NoContent(http.StatusOK) }) // nothing is held
	return e
}

// grant writes the answer a reserve of a concurrent limit and a window has.
func grant(c echo.Context, in api.ReserveRequest) error {
	now := time.Now()
	beat, left := *in.TTLSeconds/3, int64(1)
	view := api.Reservation{
		ID: "rsv_06C8Q4M2ZK7W5N3T9B1D8F6H0J", State: api.StateHeld, Subject: *in.Subject, Action: in.Action, Cost: 1,
		Slots: []api.Slot{{Limit: "both-0"}}, Fence: 1874, CreatedAt: api.At(now), ExpiresAt: api.AtPtr(now.Add(ttl)),
		TTLSeconds: in.TTLSeconds, HeartbeatSeconds: &beat,
		Limits: []api.Verdict{
			{ID: "both-0", Window: "concurrent", Amount: plenty, Used: 1, Remaining: plenty - 1, Allowed: true},
			{ID: "both-1", Window: "day", Rolling: true, Amount: plenty, Used: 1, Remaining: plenty - 1, Allowed: true, ResetsAt: api.AtPtr(now), ResetsInSeconds: &left},
		},
	}
	body, err := api.AppendJSON(nil, &view)
	if err != nil {
		return err
	}
	c.Response().Header().Set("Location", "/v1/reservations/"+view.ID)
	c.Response().Header().Set("RateLimit-Policy", `"both-0";q=1000000000;qu="concurrent-requests", "both-1";q=1000000000;w=86400`)
	c.Response().Header().Set("RateLimit", `"both-0";r=999999999, "both-1";r=999999999`)
	return c.Blob(http.StatusCreated, "application/json", body)
}
