package reserve

import (
	"cmp"
	"slices"
	"time"
)

// lines is every line of the keyspace as the watch shows it. A line is the tickets of one limit
// within one scope, by rank; the zero lines has none.
type lines struct {
	byScope map[scopeKey]map[string]*line // by limit
	byID    map[holdKey]*ticketAt
	tenants map[string]int     // how many lines each has, of those that have any
	stirred map[*line]struct{} // something happened that may let somebody in it go
	checks  []passing          // grants to be looked at once the watch has reached them
	doubles []*ticketAt        // tickets of which another has come: moved, or an attempt that was late

	unreceived map[holdKey]struct{} // grants that are to be undone, because nobody was told of them

	overtook func()                          // a grant went before a ticket that stood
	told     func(at *ticketAt, stands bool) // a ticket came, was put again, or went
}

// lineName names a line.
type lineName struct{ tenant, limit, scope string }

// set is the slots that those in the line wait for.
func (k lineName) set() Ref { return setRef(k.tenant, k.limit, k.scope) }

type scopeKey struct{ tenant, scope string }

// line is the callers that wait for one limit within one scope.
type line struct {
	key     lineName
	tickets []*ticketAt // ascending by rank
	alarm   *time.Timer // when its head is to be looked at again; nil: only an event moves it
}

// ticketAt is one ticket as it stands.
type ticketAt struct {
	ref         Ref
	create, mod int64
	lease       LeaseID
	ticket      *Ticket // nil: it cannot be read, and stands in line all the same
}

func (at *ticketAt) holder() holdKey { return holdKey{at.ref.Tenant, at.ticket.ID} }

// of is the line of a limit within a scope; nil when nobody stands there.
func (ls *lines) of(k lineName) *line {
	if len(ls.byScope) == 0 {
		return nil
	}
	return ls.byScope[scopeKey{k.tenant, k.scope}][k.limit]
}

// find is where rank is, or would be.
func (l *line) find(rank int64) (i int, there bool) {
	return slices.BinarySearchFunc(l.tickets, rank, func(at *ticketAt, rank int64) int { return cmp.Compare(at.ref.N, rank) })
}

// oldest is the rank of its head, 0 when nobody stands in it.
func (l *line) oldest() int64 {
	if len(l.tickets) == 0 {
		return 0
	}
	return l.tickets[0].ref.N
}

// length is how many stand in the line of k.
func (ls *lines) length(k lineName) int {
	if l := ls.of(k); l != nil {
		return len(l.tickets)
	}
	return 0
}

// standing is the ticket under r; nil when there is none.
func (ls *lines) standing(r Ref) *ticketAt {
	if l := ls.of(lineKey(r)); l != nil {
		if i, there := l.find(r.N); there {
			return l.tickets[i]
		}
	}
	return nil
}

// place counts from 1; 0: it does not stand.
func (ls *lines) place(at *ticketAt) int {
	if l := ls.of(lineKey(at.ref)); l != nil {
		if i, there := l.find(at.ref.N); there {
			return i + 1
		}
	}
	return 0
}

func lineKey(r Ref) lineName { return lineName{r.Tenant, r.Limit, r.Scope} }

// patch takes in a ticket, unless something later is known.
func (ls *lines) patch(e Entry) {
	k := lineKey(e.Ref)
	l := ls.of(k)
	if l == nil {
		if ls.byScope == nil {
			ls.byScope, ls.byID = map[scopeKey]map[string]*line{}, map[holdKey]*ticketAt{}
			ls.stirred, ls.tenants = map[*line]struct{}{}, map[string]int{}
		}
		l = &line{key: k}
		s := scopeKey{k.tenant, k.scope}
		if ls.byScope[s] == nil {
			ls.byScope[s] = map[string]*line{}
		}
		ls.byScope[s][k.limit] = l
		ls.tenants[k.tenant]++
	}
	i, there := l.find(e.Ref.N)
	if there && l.tickets[i].mod >= e.Mod {
		return
	}
	if !there {
		l.tickets = slices.Insert(l.tickets, i, &ticketAt{ref: e.Ref})
	}
	at := l.tickets[i]
	if at.ticket != nil && ls.byID[at.holder()] == at {
		delete(ls.byID, at.holder())
	}
	at.create, at.mod, at.lease = e.Create, e.Mod, e.Lease
	if at.ticket, _ = e.Value.(*Ticket); at.ticket != nil {
		if was := ls.byID[at.holder()]; was != nil {
			ls.doubles = append(ls.doubles, was)
		}
		ls.byID[at.holder()] = at
		ls.told(at, true)
	}
	ls.stirred[l] = struct{}{}
}

// erase takes in that no ticket stood under r at revision rev.
func (ls *lines) erase(r Ref, rev int64) {
	l := ls.of(lineKey(r))
	if l == nil {
		return
	}
	i, there := l.find(r.N)
	if !there || l.tickets[i].mod > rev {
		return
	}
	at := l.tickets[i]
	l.tickets = slices.Delete(l.tickets, i, i+1)
	ls.stirred[l] = struct{}{}
	if len(l.tickets) == 0 {
		s := scopeKey{l.key.tenant, l.key.scope}
		if delete(ls.byScope[s], l.key.limit); len(ls.byScope[s]) == 0 {
			delete(ls.byScope, s)
		}
		if ls.tenants[s.tenant]--; ls.tenants[s.tenant] == 0 {
			delete(ls.tenants, s.tenant)
		}
		l.quiet()
	}
	if at.ticket != nil && ls.byID[at.holder()] == at {
		delete(ls.byID, at.holder())
		ls.told(at, false)
	}
}

// quiet takes the alarm back.
func (l *line) quiet() {
	if l.alarm != nil {
		l.alarm.Stop()
		l.alarm = nil
	}
}

// reset forgets every line.
func (ls *lines) reset() {
	for _, byLimit := range ls.byScope {
		for _, l := range byLimit {
			l.quiet()
		}
	}
	*ls = lines{overtook: ls.overtook, told: ls.told, unreceived: ls.unreceived}
}

// stir says that something happened to what the line of k waits for.
func (ls *lines) stir(k lineName) {
	if l := ls.of(k); l != nil {
		ls.stirred[l] = struct{}{}
	}
}

// stirSet is stir for the line that waits for a set of slots.
func (ls *lines) stirSet(k setKey) {
	if len(ls.byScope) > 0 {
		ls.stir(lineName{k.tenant, k.limit, k.scope})
	}
}

// stirUsage is stir for every line that waits for what is counted under a usage key.
func (ls *lines) stirUsage(r Ref) {
	if len(ls.byScope) == 0 {
		return
	}
	for limit, l := range ls.byScope[scopeKey{r.Tenant, r.Scope}] {
		if r.Limit == "" || r.Limit == limit {
			ls.stirred[l] = struct{}{}
		}
	}
}

// stirAll is stir for every line of a tenant, "" for all.
func (ls *lines) stirAll(tenant string) {
	for s, byLimit := range ls.byScope {
		for _, l := range byLimit {
			if tenant == "" || s.tenant == tenant {
				ls.stirred[l] = struct{}{}
			}
		}
	}
}

// passing is a grant that went by the line of a limit: whoever had a lower rank and stood at
// its revision was overtaken.
type passing struct {
	key       lineName
	rank, rev int64
}

// maxChecks bounds the grants that wait to be looked at.
const maxChecks = 4_096

// passed has a grant looked at once everything up to its revision is known. The guards make an
// overtaking impossible; this is what would tell that they do not.
func (ls *lines) passed(k lineName, rank, rev int64) {
	if len(ls.byScope) > 0 && len(ls.checks) < maxChecks {
		ls.checks = append(ls.checks, passing{k, rank, rev})
	}
}

// lookBack looks at the grants up to revision rev, which the watch has reached.
func (ls *lines) lookBack(rev int64) {
	kept := ls.checks[:0]
	for _, c := range ls.checks {
		if c.rev > rev {
			kept = append(kept, c)
			continue
		}
		if l := ls.of(c.key); l != nil && l.tickets[0].ref.N < c.rank && l.tickets[0].create < c.rev {
			ls.overtook()
		}
	}
	ls.checks = kept
}
