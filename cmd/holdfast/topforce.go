package main

import (
	"context"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/api"
)

// forcing is the dialogue that ends a hold: the hold as it was read for it, whose fence is sent
// back, and the reason.
type forcing struct {
	hold   api.Reservation
	at     time.Time
	reason string
}

// within gives an act of the view its time: the view waits for it.
func (v *topView) within(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, lookWithin)
}

// beginForce reads the chosen hold anew and asks for a reason.
func (v *topView) beginForce(ctx context.Context) {
	p := v.picture.narrowed(v.filter)
	if len(p.Holds) == 0 {
		v.told = "there is no hold to end"
		return
	}
	ctx, cancel := v.within(ctx)
	defer cancel()
	hold, at, err := v.call.heldNow(ctx, p.Holds[v.at(&p)].ID)
	if err != nil {
		v.told = v.call.app.explain(err).what
		return
	}
	v.chosen, v.mode, v.typed, v.forced = hold.ID, forceReason, "", forcing{hold: hold, at: at}
}

// askSure comes after the reason, without which nothing is ended.
func (v *topView) askSure() {
	if v.forced.reason = strings.TrimSpace(v.typed); v.forced.reason != "" {
		v.mode = forceSure
	}
}

func (v *topView) endForce(ctx context.Context, sure bool) {
	v.mode = browse
	if !sure {
		v.told = "nothing was done"
		return
	}
	ctx, cancel := v.within(ctx)
	defer cancel()
	ended, _, err := v.call.forceEnd(ctx, v.forced.hold, api.ForceReleaseRequest{Reason: v.forced.reason})
	if err != nil {
		v.told = v.call.app.explain(err).what
		return
	}
	v.told = ended.ID + " is ended"
}

func (v *topView) forceLines() []topLine {
	table := strings.Split(strings.TrimRight(holdTable([]api.Reservation{v.forced.hold}, v.forced.at).render("  "), "\n"), "\n")
	lines := []topLine{{text: table[0], style: bold}, {text: table[1]}}
	if v.mode == forceReason {
		return append(lines, topLine{text: "reason, for the audit trail and the worker: " + v.typed + "_"}, topLine{text: "enter takes it   esc leaves"})
	}
	return append(lines, topLine{text: "reason: " + v.forced.reason}, topLine{text: "End it? [y/N]", style: bold})
}
