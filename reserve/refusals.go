package reserve

import (
	"slices"
	"sync"
	"time"

	"github.com/holdfast-dev/holdfast/limits"
)

// Bounds of the refusals that a replica remembers. They are in its memory alone: a refusal
// writes nothing (ADR 31).
const (
	MaxRefusals   = 16    // of a subject: the latest; those alike within a second are one
	mostRefused   = 4_096 // subjects in the younger of two halves; the older is let go whole
	ToldRefusals  = 20    // of a tenant a second that Config.Refused hears
	refusalsAlike = time.Second
)

// Refusal is a refusal of a check, or several alike within a second.
type Refusal struct {
	Tenant    string
	Subject   limits.Subject
	Principal string
	Action    limits.Action
	Cost      int64
	At        time.Time     // of the first, by the real clock
	Limit     string        // that decided; "": the subject is blocked
	Why       Why           // of that limit
	LineFull  bool          // it would have waited, and could not
	Wait      time.Duration // until it might be granted; 0: nothing to wait for, or nobody knows
	Count     int64         // how many there were; of one that is told: that it stands for
}

// alike says whether o is the same but for its instant and its wait.
func (r *Refusal) alike(o *Refusal) bool {
	return r.Action == o.Action && r.Limit == o.Limit && r.Why == o.Why && r.LineFull == o.LineFull
}

// refusalOf is what a decision that said no is remembered as.
func refusalOf(r *Request, d *Decision, now time.Time) Refusal {
	no := Refusal{
		Tenant: r.Tenant, Subject: r.Subject, Principal: r.Principal, Action: r.Action, Cost: r.Cost, At: now.Round(0), Count: 1,
	}
	if d.Block == nil && d.Binding >= 0 {
		v := &d.Verdicts[d.Binding]
		no.Limit, no.Why = v.Rule.ID, v.Why
	}
	if at, ok := d.RetryAt(); ok {
		no.Wait = max(at.Sub(d.At), time.Millisecond)
	}
	return no
}

// refusals are what this replica refused lately, by subject. Safe for concurrent use.
type refusals struct {
	mu     sync.Mutex
	young  map[subjectKey]*refusedSubject
	old    map[subjectKey]*refusedSubject
	second int64          // that told is about
	told   map[string]int // by tenant; as many as were refused within the second
}

type subjectKey struct {
	tenant  string
	subject limits.Subject
}

// refusedSubject is what one subject was refused, the latest last.
type refusedSubject struct{ all []remembered }

// remembered is a Refusal, and how many of those alike nobody was told of.
type remembered struct {
	Refusal
	untold int64
}

func newRefusals() *refusals {
	return &refusals{young: map[subjectKey]*refusedSubject{}, told: map[string]int{}}
}

// add remembers one. tell says that it is to be told; its Count then is how many of its like it
// stands for: itself, and those that came since the last that was told.
func (f *refusals) add(r Refusal) (told Refusal, tell bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.of(subjectKey{r.Tenant, r.Subject})
	var last *remembered
	for i := len(s.all) - 1; i >= 0 && last == nil; i-- {
		if s.all[i].alike(&r) {
			last = &s.all[i]
		}
	}
	if last != nil && r.At.Sub(last.At).Abs() < refusalsAlike {
		last.Count++
		last.untold++
		last.Cost, last.Wait = r.Cost, r.Wait
		return r, false
	}
	told = r
	if last != nil {
		told.Count += last.untold
	}
	untold := int64(0)
	if tell = f.mayTell(r.Tenant, r.At); !tell {
		untold = told.Count
	}
	if len(s.all) >= MaxRefusals {
		s.all = slices.Delete(s.all, 0, 1+len(s.all)-MaxRefusals)
	}
	s.all = append(s.all, remembered{r, untold})
	return told, tell
}

// of is what is remembered of a subject; it is young from now on.
func (f *refusals) of(k subjectKey) *refusedSubject {
	if s := f.young[k]; s != nil {
		return s
	}
	if len(f.young) >= mostRefused {
		f.young, f.old = map[subjectKey]*refusedSubject{}, f.young
	}
	s := f.old[k]
	if s == nil {
		s = &refusedSubject{}
	}
	f.young[k] = s
	return s
}

func (f *refusals) mayTell(tenant string, at time.Time) bool {
	if s := at.Unix(); s != f.second {
		f.second = s
		clear(f.told)
	}
	f.told[tenant]++
	return f.told[tenant] <= ToldRefusals
}

// Refusals is what this replica refused s lately, the latest first: at most MaxRefusals. What
// other replicas refused, and what came before this one started, is not among it.
// Cost: nothing but a lock.
func (s *Service) Refusals(tenant string, subject limits.Subject) []Refusal {
	f := s.refusals
	f.mu.Lock()
	defer f.mu.Unlock()
	k := subjectKey{tenant, subject}
	had := f.young[k]
	if had == nil {
		had = f.old[k]
	}
	if had == nil {
		return nil
	}
	out := make([]Refusal, 0, len(had.all))
	for i := len(had.all) - 1; i >= 0; i-- {
		out = append(out, had.all[i].Refusal)
	}
	return out
}

// refused takes in a decision that said no to a check that was no preview.
func (s *Service) refused(r *Request, d *Decision, lineFull bool, at time.Time) {
	no := refusalOf(r, d, s.cfg.Now())
	no.LineFull = lineFull
	told, tell := s.refusals.add(no)
	if tell && s.cfg.Refused != nil {
		s.cfg.Refused(told)
	}
	s.exceeding.note(r, d, at)
}
