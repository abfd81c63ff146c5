package reserve

// limitName is a limit of a tenant. There is one of each in memory, so that it is known by its
// address: a hold's slot, its set and its counts would else keep both names each.
type limitName struct{ tenant, limit string }

// names are the limits met since the picture was begun: those that were ever defined, and one
// without a limit a tenant.
type names struct {
	known map[limitName]*limitName
	last  *limitName // asked for: requests come in runs
}

func newNames() *names { return &names{known: map[limitName]*limitName{}, last: &limitName{}} }

func (n *names) of(tenant, limit string) *limitName {
	if n.last.tenant == tenant && n.last.limit == limit {
		return n.last
	}
	k := limitName{tenant, limit}
	name := n.known[k]
	if name == nil {
		name = &k
		n.known[k] = name
	}
	n.last = name
	return name
}

// setKey names a set of slots, or counts, by limit and scope.
type setKey struct {
	*limitName
	scope string
}

func (n *names) key(r Ref) setKey { return setKey{n.of(r.Tenant, r.Limit), r.Scope} }
