package load

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/holdfast-dev/holdfast/api"
)

// Verb is what one step does.
type Verb uint8

// The verbs. A step of the first two is the whole cycle.
const (
	ReserveRelease       Verb = iota // reserve, and release when it was granted
	ReserveExtendRelease             // the same with one extend between
	Reserve                          // reserve and keep; see Kept
	Consume                          // charge the limits
	Refusal                          // reserve where the limit is full; a grant is a failure
	Heartbeats                       // one call that extends Batch holds of the worker's own
)

var verbNames = [...]string{"reserve-release", "reserve-extend-release", "reserve", "consume", "refusal", "heartbeats"}

// String is the verb's name, as ParseVerb reads it.
func (v Verb) String() string { return verbNames[v] }

// VerbNames lists the names of all verbs.
func VerbNames() []string { return verbNames[:] }

// ParseVerb finds a verb by its name.
func ParseVerb(name string) (Verb, error) {
	for i, known := range verbNames {
		if known == name {
			return Verb(i), nil
		}
	}
	return 0, fmt.Errorf("load: %q is no verb", name)
}

// Work is the requests of a drive over HTTP. The limits of Action and Kind must stand already.
type Work struct {
	Verb  Verb
	Keys  Keys
	Kind  string // of the subjects
	Name  string // what a subject's id begins with; its number follows
	Act   string // the action
	TTL   time.Duration
	Batch int // Heartbeats: holds a call, 1 to api.MaxHeartbeats
	Seed  uint64

	Kept *Kept // takes what is left held; required for Reserve, Refusal and Heartbeats
}

// Kept are holds that wait to be given back.
type Kept struct {
	mu  sync.Mutex
	ids []string
}

func (k *Kept) add(id string) {
	k.mu.Lock()
	k.ids = append(k.ids, id)
	k.mu.Unlock()
}

// Take hands over all ids and forgets them.
func (k *Kept) Take() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	ids := k.ids
	k.ids = nil
	return ids
}

func (w Work) faults() error {
	var faults []error
	wrong := func(bad bool, text string) {
		if bad {
			faults = append(faults, errors.New("load: "+text))
		}
	}
	wrong(w.Verb > Heartbeats, "Verb is unknown")
	wrong(w.TTL < 2*time.Second || w.TTL > time.Hour, "TTL: want 2s to 1h")
	wrong(w.Verb == Heartbeats && (w.Batch < 1 || w.Batch > api.MaxHeartbeats), fmt.Sprintf("Batch: want 1 to %d", api.MaxHeartbeats))
	wrong(w.Verb != ReserveRelease && w.Verb != ReserveExtendRelease && w.Verb != Consume && w.Kept == nil,
		"Kept is required: what is reserved must be given back")
	return errors.Join(append(faults, w.Keys.fault())...)
}

// Prepare makes the steps of w against e, for Drive; each worker has a connection of its own,
// which close ends. Heartbeats reserves its holds at once; it asks for nothing else.
//
// Errors: all faults of w, joined.
func (w Work) Prepare(ctx context.Context, e *Endpoint) (prepare func(worker int) (Step, error), close func(), err error) {
	if err := w.faults(); err != nil {
		return nil, nil, err
	}
	var conns []*Conn
	prepare = func(worker int) (Step, error) {
		u := &user{Work: w, conn: e.Conn(), pick: w.Keys.Picker(w.Seed + uint64(worker))}
		conns = append(conns, u.conn)
		return u.step(ctx)
	}
	return prepare, func() {
		for _, c := range conns {
			c.Close()
		}
	}, nil
}

// Release gives ids back by workers at once, and gives the number that could not be.
func Release(ctx context.Context, e *Endpoint, ids []string, workers int) (left int) {
	var all sync.WaitGroup
	var mu sync.Mutex
	for w := range min(workers, len(ids)) {
		all.Go(func() {
			u := &user{conn: e.Conn()}
			defer u.conn.Close()
			failed := 0
			for i := w; i < len(ids); i += workers {
				u.id = append(u.id[:0], ids[i]...)
				if ctx.Err() != nil || u.act(ctx, "/release", nil) != nil {
					failed++
				}
			}
			mu.Lock()
			left += failed
			mu.Unlock()
		})
	}
	all.Wait()
	return left
}
