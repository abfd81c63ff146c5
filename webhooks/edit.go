package webhooks

import (
	"cmp"
	"context"
	"crypto/rand"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/reserve"
)

// OldGood is how long deliveries are signed with the secret before, too.
const OldGood = 24 * time.Hour

// CheckURL says what is wrong with an address, as a sentence that begins with its name goes on.
func (d *Dispatcher) CheckURL(text string) error { return d.cfg.Policy.CheckURL(text) }

// List is a tenant's webhooks as this replica knows them, the oldest first, and how far each is.
func (d *Dispatcher) List(tenant string) []reserve.WebhookView {
	d.mu.Lock()
	defer d.mu.Unlock()
	var out []reserve.WebhookView
	for k, at := range d.hooks {
		if k.tenant == tenant {
			v := reserve.WebhookView{ID: k.id, Webhook: *at.hook}
			if far := d.far[k]; far != nil {
				v.Delivery = *far
			}
			out = append(out, v)
		}
	}
	slices.SortFunc(out, func(a, b reserve.WebhookView) int { return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.ID, b.ID)) })
	return out
}

// Create makes a webhook; it is told of what happens from then on.
// Errors: ErrTooManyWebhooks; ErrUnavailable, ErrFull (nothing happened), ErrUnknownOutcome.
func (d *Dispatcher) Create(ctx context.Context, tenant string, w reserve.Webhook, note reserve.Note) (reserve.WebhookView, error) {
	if len(d.List(tenant)) >= MaxWebhooks || d.crowded() {
		return reserve.WebhookView{}, reserve.ErrTooManyWebhooks
	}
	v := reserve.WebhookView{ID: "wh_" + strings.ToLower(rand.Text())[:20], Webhook: w}
	facts := reserve.Facts{"url": w.URL, "events": w.Events}
	return v, d.edit(ctx, tenant, v.ID, 0, &w, note.With(reserve.Change{Act: "webhook.create", Target: v.ID, After: facts.String()}))
}

// crowded says that there are as many webhooks as are delivered to.
func (d *Dispatcher) crowded() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.hooks) >= MaxCouriers
}

// Delete ends a webhook; what was queued for it goes with it.
// Errors: ErrNotFound, ErrContended, ErrUnavailable (nothing happened), ErrUnknownOutcome.
func (d *Dispatcher) Delete(ctx context.Context, tenant, id string, note reserve.Note) error {
	at, ok := d.find(tenant, id)
	if !ok {
		return reserve.ErrNotFound
	}
	facts := reserve.Facts{"url": at.hook.URL, "events": at.hook.Events}
	return d.edit(ctx, tenant, id, at.mod, nil, note.With(reserve.Change{Act: "webhook.delete", Target: id, Before: facts.String()}))
}

// Rotate gives a webhook another secret; the one before is good for OldGood more. One that was
// before that is good no more.
// Errors: as Delete's.
func (d *Dispatcher) Rotate(ctx context.Context, tenant, id string, secret reserve.Secret, note reserve.Note) (reserve.WebhookView, error) {
	at, ok := d.find(tenant, id)
	if !ok {
		return reserve.WebhookView{}, reserve.ErrNotFound
	}
	w := *at.hook
	w.Previous, w.Secret, w.Until = w.Secret, secret, d.cfg.Now().Add(OldGood).UTC().Truncate(time.Millisecond)
	err := d.edit(ctx, tenant, id, at.mod, &w, note.With(reserve.Change{Act: "webhook.rotate", Target: id}))
	return reserve.WebhookView{ID: id, Webhook: w}, err
}

func (d *Dispatcher) find(tenant, id string) (hookAt, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	at, ok := d.hooks[hookKey{tenant, id}]
	return at, ok
}

// edit puts or deletes a webhook together with its note, and waits until this replica has heard.
func (d *Dispatcher) edit(ctx context.Context, tenant, id string, had int64, w *reserve.Webhook, note *reserve.Note) error {
	ref := reserve.Ref{Tenant: tenant, Kind: reserve.RefWebhook, Scope: id}
	write := reserve.Write{Ref: ref}
	if w != nil {
		write.Value = w
	}
	guard, noted := note.Write(tenant)
	res, err := d.apply(ctx, reserve.Group{
		Tenant: tenant, Catalog: reserve.AnyCatalog,
		Guards: []reserve.Guard{{Ref: ref, Cond: reserve.ModIs, Rev: had}, guard},
		Writes: []reserve.Write{write, noted},
	})
	switch {
	case err != nil:
		return err
	case !res.Outcomes[0].Committed:
		return reserve.ErrContended
	}
	return d.reached(ctx, res.Rev)
}
