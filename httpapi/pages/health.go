package pages

import (
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-dev/holdfast/api"
	"github.com/holdfast-dev/holdfast/auth"
	"github.com/holdfast-dev/holdfast/reserve"
	"github.com/holdfast-dev/holdfast/web"
)

// Bounds of the look at the service itself.
const (
	healthEvery  = 2 * time.Second         // one look serves every page meanwhile
	healthBudget = 2500 * time.Millisecond // of one look
	clockApart   = 2 * time.Second         // of two replicas, beyond which windows are not judged
	mostFindings = 32
)

// finding is something that is not as it should be, and what to do about it.
type finding struct {
	level      web.Level
	says, next string
}

// health is how the service was at one look.
type health struct {
	findings []finding // worst first
	base     string    // what there is to say when all is well
	replicas []reserve.Peer
	store    api.ClusterAnswer
	storeErr error
	ready    error
}

// watcher keeps the last look for a while.
type watcher struct {
	turn chan struct{} // holds one: whoever takes it looks

	mu   sync.Mutex
	at   time.Time
	last *health
}

func newWatcher() *watcher {
	w := &watcher{turn: make(chan struct{}, 1)}
	w.turn <- struct{}{}
	return w
}

func (w *watcher) get(now time.Time) (last *health, fresh bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.last, w.last != nil && now.Sub(w.at) < healthEvery
}

// health is the last look, or a new one. Nobody waits for another's look who can be told the one before.
func (p *Pages) health(ctx context.Context) *health {
	last, fresh := p.watcher.get(p.Now())
	if fresh {
		return last
	}
	if last != nil {
		select {
		case <-p.watcher.turn:
		default:
			return last
		}
	} else {
		select {
		case <-p.watcher.turn:
		case <-ctx.Done():
			return &health{}
		}
	}
	defer func() { p.watcher.turn <- struct{}{} }()
	if last, fresh = p.watcher.get(p.Now()); fresh {
		return last
	}
	last = p.lookAround(ctx)
	p.watcher.mu.Lock()
	defer p.watcher.mu.Unlock()
	p.watcher.last, p.watcher.at = last, p.Now()
	return last
}

// lookAround asks everybody at once.
func (p *Pages) lookAround(ctx context.Context) *health {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), healthBudget)
	defer cancel()
	h := &health{}
	var both sync.WaitGroup
	both.Go(func() { h.ready = p.Service.Ready(ctx) })
	if p.Cluster != nil {
		both.Go(func() { h.store, h.storeErr = p.Cluster(ctx) })
	}
	both.Wait()
	h.replicas = p.Service.Replicas()
	p.judgeStore(h)
	p.judgeReplicas(h)
	p.judgeJobs(h)
	rank := map[web.Level]int{web.Bad: 0, web.Warn: 1, web.Note: 2}
	slices.SortStableFunc(h.findings, func(a, b finding) int { return rank[a.level] - rank[b.level] })
	h.findings = h.findings[:min(len(h.findings), mostFindings)]
	return h
}

func (h *health) found(level web.Level, says, next string) {
	h.findings = append(h.findings, finding{level, says, next})
}

func (p *Pages) judgeStore(h *health) {
	if h.ready != nil {
		h.found(web.Bad, "this replica cannot decide: "+p.Problem(h.ready).Detail, "Look at etcd and the network first: holdfast doctor, then docs/runbook.md.")
	}
	if p.Quarantined() {
		h.found(web.Bad, "quarantine after a restore: nothing is granted", "It ends by itself once every hold of before must have ended.")
	}
	if p.Cluster == nil {
		return
	}
	if h.storeErr != nil {
		if h.ready == nil {
			h.found(web.Warn, "the store does not tell how it is", "holdfast doctor")
		}
		return
	}
	for _, alarm := range h.store.Alarms {
		h.found(web.Bad, "the store has the alarm "+alarm+": nothing new is granted", "Make room, then disarm the alarm: docs/runbook.md.")
	}
	if q := h.store.QuotaBytes; q > 0 && h.store.UsedBytes > q/10*7 {
		h.found(web.Warn, fmt.Sprintf("the store is %d%% full", h.store.UsedBytes*100/q), "Keep ended reservations for less time (--retain-ended), or give the store more room: docs/runbook.md.")
	}
	answers, leads := 0, false
	var silent []string
	for _, m := range h.store.Members {
		leads = leads || m.Leader
		if m.Answers != nil && !*m.Answers {
			silent = append(silent, m.Name)
		} else {
			answers++
		}
	}
	n := len(h.store.Members)
	if n > 0 && !leads {
		h.found(web.Bad, "etcd has no leader", "Wait for an election; if it does not come, start the members that are away.")
	}
	if len(silent) > 0 {
		level, says := web.Warn, count(len(silent), "member of etcd does", "members of etcd do")+" not answer: "+strings.Join(silent, ", ")
		if left := answers - (n/2 + 1); left == 0 {
			says += "; one more and nothing can be granted"
		}
		h.found(level, says, "Start it again, or replace it: docs/runbook.md.")
	}
	if n > 0 {
		h.base = fmt.Sprintf("etcd %d/%d · ", answers, n)
	}
	h.base += "rev " + grouped(h.store.Revision)
}

func (p *Pages) judgeReplicas(h *health) {
	live, versions := 0, map[string]bool{}
	for i := range h.replicas {
		r := &h.replicas[i]
		if !r.Gone.IsZero() {
			h.found(web.Warn, "replica "+replicaName(r)+" went at "+r.Gone.UTC().Format("15:04:05 UTC"),
				"Was it stopped on purpose? Holds that were made there stand; who waited there must ask again.")
			continue
		}
		live++
		if r.Version != "" {
			versions[r.Version] = true
		}
		if r.Apart.Abs() > clockApart {
			h.found(web.Warn, "the clock of replica "+replicaName(r)+" is "+r.Apart.Abs().Round(time.Second).String()+" apart from the one here", "Look at its time service.")
		}
	}
	if p.Service.Skewed() {
		h.found(web.Bad, "the clock here cannot be trusted: limits with windows refuse", "Look at the time service of this machine.")
	}
	if len(versions) > 1 {
		h.found(web.Note, count(len(versions), "version", "versions")+" of Holdfast run side by side", "Right during a roll-out, and not for long.")
	}
	if live > 0 {
		h.base = strings.TrimSuffix(count(live, "replica", "replicas")+" · "+h.base, " · ")
	}
}

func (p *Pages) judgeJobs(h *health) {
	if found, _ := p.Drift(); found > 0 {
		h.found(web.Bad, "the last recount found "+count(found, "thing that does", "things that do")+" not add up", "The log names each. Run the janitor's verify to count again.")
	}
	if p.Janitor == nil {
		return
	}
	for _, job := range p.Janitor.Jobs() {
		if _, at, err := p.Janitor.Last(job); err != nil && !at.IsZero() {
			h.found(web.Warn, "the janitor's "+job+" failed", "It is tried again by itself; the log has the reason.")
		}
	}
}

// strip is how the service is, in one line over every page.
func (h *health) strip() web.Cell {
	c := web.Cell{Text: h.base}
	if len(h.findings) == 0 {
		return c
	}
	const most = 3
	var says []string
	for _, f := range h.findings[:min(len(h.findings), most)] {
		says = append(says, f.says)
	}
	if more := len(h.findings) - most; more > 0 {
		says = append(says, strconv.Itoa(more)+" more")
	}
	c.Level, c.Text = h.findings[0].level, upper(strings.Join(says, " · "))
	if h.base != "" {
		c.Text += " · " + h.base
	}
	return c
}

// around is what stands over the page of somebody who is signed in.
func (p *Pages) around(ctx context.Context, v *visit) []web.Field {
	c := p.health(ctx).strip()
	if v.who.Has(auth.Admin) {
		c.Href = p.Prefix + "/system"
	}
	return []web.Field{{Name: "health", Title: "Service", Kind: web.Link, Cell: c}}
}

func replicaName(r *reserve.Peer) string {
	if r.Address != "" {
		return r.Address
	}
	return r.ID
}

// grouped is a number that people can read: 918 221.
func grouped(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "\u202f" + s[i:]
	}
	return s
}

// goVersion is what this program was built with.
func goVersion() string {
	if b, ok := debug.ReadBuildInfo(); ok {
		return b.GoVersion
	}
	return ""
}
