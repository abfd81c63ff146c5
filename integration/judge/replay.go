package judge

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Change is one event of the store: a key that was put or deleted at a revision.
type Change struct {
	Revision, Created int64 // Created is the create revision of what was put
	Key, Value        string
	Deleted           bool
	At                time.Duration // when it was seen; the change itself was earlier
}

// Life is a slot from its grant to its end. Until is 0 while it stands.
type Life struct {
	Place       string // limit and subject
	Slot, Fence int64
	Since       time.Duration // when the grant was seen
	Until       time.Duration // when the end was seen
	Moved       time.Duration // when it was last seen to be put: granted or extended
}

// Replay takes in the changes of one tenant's keys in order, from the first revision on. It is
// exact and reads no clock.
type Replay struct {
	root      string // of the tenant's keys, ending in "/"
	revision  int64
	revisions int
	amounts   map[string]int   // by limit, as it stands
	live      map[seat]*Life   // who stands where
	last      map[seat]int64   // the last fence of each slot
	held      map[string]int   // by place
	most      int              // of held, at any revision
	moved     map[string]bool  // places that this revision changed
	began     map[string]int   // by place: grants of this revision
	lives     []*Life          // all there were
	named     map[string]*Life // by Name
	faults    []string
}

type seat struct {
	place string
	n     string
}

// NewReplay reads keys below root, such as "/holdfast/v1/t/default/".
func NewReplay(root string) *Replay {
	return &Replay{
		root: root, amounts: map[string]int{}, live: map[seat]*Life{}, last: map[seat]int64{},
		held: map[string]int{}, moved: map[string]bool{}, began: map[string]int{}, named: map[string]*Life{},
	}
}

// Name is the one name of a grant.
func Name(place string, slot, fence int64) string { return fmt.Sprintf("%s/%d@%d", place, slot, fence) }

// Take takes in one change; those of one revision follow each other.
func (r *Replay) Take(c Change) {
	if c.Revision < r.revision {
		r.object("revision %d came after it", c.Revision)
	}
	if c.Revision != r.revision {
		r.settle()
		r.revision = c.Revision
		r.revisions++
	}
	name, ours := strings.CutPrefix(c.Key, r.root)
	if !ours {
		return
	}
	family, name, _ := strings.Cut(name, "/")
	switch family {
	case "limits":
		r.limit(name, c)
	case "slots":
		r.slot(name, c)
	}
}

// limit takes in another amount. Who holds may stay.
func (r *Replay) limit(id string, c Change) {
	amount := 0
	if !c.Deleted {
		var v struct{ Amount int }
		if len(c.Value) < 2 || json.Unmarshal([]byte(c.Value[1:]), &v) != nil { // the first byte is a version
			r.object("the limit %s cannot be read", id)
			return
		}
		amount = v.Amount
	}
	r.amounts[id] = amount
}

func (r *Replay) slot(name string, c Change) {
	cut := strings.LastIndexByte(name, '/')
	if cut < 0 {
		r.object("%s is no slot", c.Key)
		return
	}
	s := seat{name[:cut], name[cut+1:]}
	now := r.live[s]
	r.moved[s.place] = true
	switch {
	case c.Deleted && now != nil:
		r.held[s.place]--
		now.Until = c.At
		delete(r.live, s)
	case c.Deleted:
		r.object("%s/%s ended, and nobody was in it", s.place, s.n)
	case c.Created != c.Revision:
		if now == nil || now.Fence != c.Created {
			r.object("%s/%s has fence %d, and %v stood", s.place, s.n, c.Created, now)
			return
		}
		now.Moved = c.At
	default:
		r.grant(s, now, c)
	}
}

func (r *Replay) grant(s seat, now *Life, c Change) {
	if now != nil {
		r.object("%s/%s was given with fence %d while %d stood", s.place, s.n, c.Created, now.Fence)
	}
	if c.Created <= r.last[s] {
		r.object("%s/%s has fence %d after %d", s.place, s.n, c.Created, r.last[s])
	}
	l := &Life{Place: s.place, Fence: c.Created, Since: c.At, Moved: c.At}
	if _, err := fmt.Sscan(s.n, &l.Slot); err != nil {
		r.object("%s/%s is no slot", s.place, s.n)
	}
	r.live[s], r.last[s] = l, c.Created
	r.held[s.place]++
	r.began[s.place]++
	r.lives = append(r.lives, l)
	r.named[Name(l.Place, l.Slot, l.Fence)] = l
}

// settle judges the revision that is over. A place may have more than the amount after the amount
// was lowered; it gets nobody until it has fewer.
func (r *Replay) settle() {
	for place := range r.moved {
		limit, _, _ := strings.Cut(place, "/")
		amount, n := r.amounts[limit], r.held[place]
		r.most = max(r.most, n)
		if r.began[place] > 0 && n > amount {
			r.object("%s has %d slots taken after a grant, and the amount is %d", place, n, amount)
		}
	}
	clear(r.moved)
	clear(r.began)
}

const mostFaults = 20 // told; one is enough

func (r *Replay) object(format string, args ...any) {
	if len(r.faults) < mostFaults {
		r.faults = append(r.faults, fmt.Sprintf("revision %d: ", r.revision)+fmt.Sprintf(format, args...))
	}
}

// Seen is what a replay counted and objects to.
type Seen struct {
	Revisions, Grants, Ends int
	Most                    int // slots taken at once in one place
	Lives                   []*Life
	Named                   map[string]*Life // by Name
	Faults                  []string
}

// End judges the last revision.
func (r *Replay) End() Seen {
	r.settle()
	ends := 0
	for _, l := range r.lives {
		if l.Until != 0 {
			ends++
		}
	}
	return Seen{r.revisions, len(r.lives), ends, r.most, r.lives, r.named, slices.Clone(r.faults)}
}
