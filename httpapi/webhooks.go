package httpapi

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/api"
	"github.com/holdfast-dev/holdfast/events"
	"github.com/holdfast-dev/holdfast/reserve"
)

// Bounds of a webhook's secret, in bytes of the key that it stands for.
const (
	secretPrefix = "whsec_" // before a key in base64, as the Standard Webhooks write it
	minSecret    = 16
	maxSecret    = 64
	madeSecret   = 32
)

var (
	errNoWebhooks = &wireError{code: api.NotFound, detail: "This server sends no webhooks."}
	errNoWebhook  = &wireError{code: api.NotFound, detail: "There is no such webhook."}
)

// createWebhook answers POST /v1/webhooks. The secret is told here, and never again.
//
// Access: limits:write.
func (s *server) createWebhook(ctx context.Context, c *call, in *api.WebhookRequest) (int, any, error) {
	if s.Webhooks == nil {
		return 0, nil, errNoWebhooks
	}
	var faults *api.DecodeError
	if err := s.Webhooks.CheckURL(in.URL); err != nil {
		faults = faults.And(api.Fault{Pointer: "/url", Detail: err.Error()})
	}
	for i, word := range in.Events {
		if t, ok := events.ParseType(word); !ok || t == events.Refused {
			faults = faults.And(api.Fault{Pointer: fmt.Sprintf("/events/%d", i), Detail: "must be a type of event, and not check.refused"})
		} else if slices.Contains(in.Events[:i], word) {
			faults = faults.And(api.Fault{Pointer: fmt.Sprintf("/events/%d", i), Detail: "is named twice"})
		}
	}
	secret, text, fault := secretOf(in.Secret)
	if fault != "" {
		faults = faults.And(api.Fault{Pointer: "/secret", Detail: fault})
	}
	if faults != nil {
		return 0, nil, faults
	}
	v, err := s.Webhooks.Create(ctx, c.who.Tenant, reserve.Webhook{
		URL: in.URL, Events: in.Events, Secret: secret, At: s.Now().UTC().Truncate(time.Millisecond), By: c.by(),
	}, s.note(c, ""))
	if errors.Is(err, reserve.ErrTooManyWebhooks) {
		return 0, nil, &wireError{code: api.InvalidValue, detail: "There are as many webhooks as there may be, in this tenant or in all; delete one first."}
	}
	if err != nil {
		return 0, nil, err
	}
	c.out.Set("Location", "/v1/webhooks/"+v.ID)
	view := webhookView(&v)
	view.Secret = text
	return http.StatusCreated, view, nil
}

// secretOf is the key that a secret stands for, and how it is told; one is made for "".
func secretOf(given string) (key reserve.Secret, text, fault string) {
	const wrong = "must be 16 to 64 readable characters, or whsec_ and 16 to 64 bytes in base64"
	if given == "" {
		key = make([]byte, madeSecret)
		_, _ = rand.Read(key) // never fails
		return key, secretPrefix + base64.StdEncoding.EncodeToString(key), ""
	}
	key = reserve.Secret(given)
	if coded, ok := strings.CutPrefix(given, secretPrefix); ok {
		var err error
		if key, err = base64.StdEncoding.DecodeString(coded); err != nil {
			return nil, "", wrong
		}
	} else if !printable(given) {
		return nil, "", wrong
	}
	if len(key) < minSecret || len(key) > maxSecret {
		return nil, "", wrong
	}
	return key, given, ""
}

// listWebhooks answers GET /v1/webhooks: all of them, the oldest first. Access: limits:read.
func (s *server) listWebhooks(_ context.Context, c *call) (int, any, error) {
	if s.Webhooks == nil {
		return 0, nil, errNoWebhooks
	}
	all := s.Webhooks.List(c.who.Tenant)
	answer := api.WebhookPage{Data: make([]api.Webhook, len(all))}
	for i := range all {
		answer.Data[i] = webhookView(&all[i])
	}
	return http.StatusOK, answer, nil
}

// getWebhook answers GET /v1/webhooks/{id}. Access: limits:read.
func (s *server) getWebhook(_ context.Context, c *call) (int, any, error) {
	if s.Webhooks != nil {
		for _, v := range s.Webhooks.List(c.who.Tenant) {
			if v.ID == c.param("id") {
				return http.StatusOK, webhookView(&v), nil
			}
		}
	}
	return 0, nil, errNoWebhook
}

// deleteWebhook answers DELETE /v1/webhooks/{id}; what waits for it goes with it.
//
// Access: limits:write.
func (s *server) deleteWebhook(ctx context.Context, c *call) (int, any, error) {
	if s.Webhooks == nil {
		return 0, nil, errNoWebhook
	}
	if err := s.Webhooks.Delete(ctx, c.who.Tenant, c.param("id"), s.note(c, "")); err != nil {
		return 0, nil, webhookError(err)
	}
	return http.StatusNoContent, nil, nil
}

// rotateWebhook answers POST /v1/webhooks/{id}/rotate: another secret, beside which the one before is
// good for a day.
//
// Access: limits:write.
func (s *server) rotateWebhook(ctx context.Context, c *call, in *api.RotateRequest) (int, any, error) {
	if s.Webhooks == nil {
		return 0, nil, errNoWebhook
	}
	secret, text, fault := secretOf(in.Secret)
	if fault != "" {
		var faults *api.DecodeError
		return 0, nil, faults.And(api.Fault{Pointer: "/secret", Detail: fault})
	}
	v, err := s.Webhooks.Rotate(ctx, c.who.Tenant, c.param("id"), secret, s.note(c, ""))
	if err != nil {
		return 0, nil, webhookError(err)
	}
	view := webhookView(&v)
	view.Secret = text
	return http.StatusOK, view, nil
}

func webhookError(err error) error {
	if errors.Is(err, reserve.ErrNotFound) {
		return errNoWebhook
	}
	return err
}

func webhookView(v *reserve.WebhookView) api.Webhook {
	d := &v.Delivery
	out := api.Webhook{
		ID: v.ID, URL: v.URL, Events: v.Events, OldSecretUntil: api.AtPtr(v.Until), CreatedAt: api.At(v.At), CreatedBy: shownPrincipal(v.By),
		Delivery: api.Delivery{
			Queued: d.Queued, Accepted: d.Accepted, Failed: d.Failed, Dropped: d.Dropped, Gaps: d.Gaps,
			AcceptedAt: api.AtPtr(d.AcceptedAt), FailedAt: api.AtPtr(d.FailedAt), Status: d.Status, Trouble: d.Trouble,
		},
	}
	if out.Events == nil {
		out.Events = []string{}
	}
	return out
}
