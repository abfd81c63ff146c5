package events

import (
	"slices"

	"github.com/holdfast-dev/holdfast/reserve"
)

// Refused takes in a refusal of this replica's, for readers that are connected here and have
// come up with what is told. A refusal changes nothing in the store, so it is no part of its
// history: it has no position, other replicas do not tell it, and nobody resumes after it
// (ADR 31). It is quick.
func (h *Hub) Refused(r reserve.Refusal) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.metrics.events.WithLabelValues(Refused.String()).Inc()
	if h.rev == 0 || h.readers == 0 {
		return
	}
	h.aside++
	if len(h.asides) >= maxAsides {
		h.asides = slices.Delete(h.asides, 0, maxAsides/2)
	}
	h.asides = append(h.asides, &Event{Type: Refused, Tenant: r.Tenant, At: r.At, LimitID: r.Limit, Refusal: &r, aside: h.aside})
	h.ring(r.Tenant).stir()
}

// asidesAfter are those of a tenant after number n, as far as they are kept; called under the
// lock.
func (h *Hub) asidesAfter(n int64, tenant string) (es []*Event) {
	for i := len(h.asides) - 1; i >= 0 && h.asides[i].aside > n; i-- {
		if h.asides[i].Tenant == tenant {
			es = append(es, h.asides[i])
		}
	}
	slices.Reverse(es)
	return es
}
