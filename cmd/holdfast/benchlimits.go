package main

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/api"
	"github.com/holdfast-dev/holdfast/load"
)

// benchKind is the kind of a bench's subjects.
const benchKind = "bench"

// benchPlenty is an amount that no bench uses up.
const benchPlenty = 1_000_000_000

// benchLimits are limits that only one bench meets: their name and their action are its own.
type benchLimits struct {
	call *caller
	name string
	made []api.Limit
}

func newBenchLimits(call *caller) *benchLimits {
	return &benchLimits{call: call, name: "bench-" + strings.ToLower(rand.Text()[:10])}
}

// make puts as many limits as one check is to meet, and fills the first one for refusals.
func (l *benchLimits) make(ctx context.Context, b benched) error {
	windows := load.Windows()
	if b.verb != load.Consume {
		windows = append([]api.LimitInput{{Window: "concurrent"}}, windows...)
	}
	for i, in := range windows[:b.limits] {
		in.Name, in.ID = l.name+"-"+number(int64(i)), l.name+"-"+number(int64(i))
		in.SubjectKind, in.Action, in.Amount = benchKind, l.name, benchPlenty
		if b.verb == load.Refusal && i == 0 {
			in.Amount, in.Share = 1, "all" // one hold fills it for every subject
		}
		var made api.Limit
		if _, err := l.call.do(ctx, act{method: http.MethodPost, path: "/v1/limits", body: in, into: &made}); err != nil {
			return err
		}
		l.made = append(l.made, made)
	}
	if b.verb != load.Refusal {
		return nil
	}
	ttl := (b.warm + b.length + benchCleanup).Round(time.Second)
	body := api.ReserveRequest{Subject: &api.Subject{Kind: benchKind, ID: l.name}, Action: l.name, TTLSeconds: wholeSeconds(min(ttl, time.Hour))}
	_, err := l.call.do(ctx, act{method: http.MethodPost, path: "/v1/reservations", body: body, key: newKey()})
	return err
}

// remove takes the limits away. The hold that filled one of them runs out by itself.
func (l *benchLimits) remove(ctx context.Context) error {
	var faults []error
	for _, limit := range l.made {
		one := act{method: http.MethodDelete, path: limitPath(limit.ID), ifMatch: `"` + number(limit.Revision) + `"`}
		if _, err := l.call.do(ctx, one); err != nil {
			faults = append(faults, err)
		}
	}
	if len(faults) > 0 {
		return fail(exitFailed, "limits of the bench are left behind: %w", errors.Join(faults...)).
			next("see them", "holdfast limits ls").next("remove them", "holdfast limits delete "+l.name+"-…")
	}
	return nil
}
