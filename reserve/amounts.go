package reserve

import (
	"fmt"

	"github.com/holdfast-dev/holdfast/limits"
)

// tenantView is a tenant's limits as they are told, and the catalogue made of them.
type tenantView struct {
	rev, seq  int64
	limits    map[string]limits.Limit
	overrides map[Ref]limits.Override
	file      *limits.File
	plans     map[string]limits.SubjectPlan // by scope
	blocks    map[string]limits.Block
	unread    map[Ref]error // limits, overrides and plans whose value cannot be read and was not known before
	catalog   *limits.Catalog
}

// tellCatalog takes in a key of the catalogue; e nil: it was deleted.
func (p *picture) tellCatalog(r Ref, e *Entry, moved map[string]bool) {
	t := p.tenants[r.Tenant]
	if t == nil {
		t = &tenantView{limits: map[string]limits.Limit{}, overrides: map[Ref]limits.Override{}, plans: map[string]limits.SubjectPlan{}, blocks: map[string]limits.Block{}, unread: map[Ref]error{}}
		p.tenants[r.Tenant] = t
	}
	moved[r.Tenant] = true
	delete(t.unread, r)
	if e == nil || e.Fault != nil {
		t.forget(r, e)
		return
	}
	switch v := e.Value.(type) {
	case Seq:
		t.rev, t.seq = e.Mod, int64(v)
	case *limits.Limit:
		l := *v
		l.Revision = e.Mod
		t.limits[r.Limit] = l
	case *limits.Override:
		t.overrides[r] = *v
	case *limits.File:
		t.file = v
	case *limits.SubjectPlan:
		t.plans[r.Scope] = *v
	case *limits.Block:
		t.blocks[r.Scope] = *v
	}
}

// forget drops a key of the catalogue. A limit that cannot be read is closed, not forgotten:
// forgetting it would allow what it forbids. When not even its action is known, nothing of the
// tenant can be decided.
func (t *tenantView) forget(r Ref, e *Entry) {
	switch r.Kind {
	case RefLimit:
		l, known := t.limits[r.Limit]
		switch {
		case e == nil:
			delete(t.limits, r.Limit)
		case known:
			l.Paused, l.PauseReason = true, "its definition in the store cannot be read"
			t.limits[r.Limit] = l
		default:
			t.unread[r] = e.Fault
		}
	case RefOverride:
		if e == nil {
			delete(t.overrides, r)
		} else {
			t.unread[r] = e.Fault
		}
	case RefFile:
		if e == nil {
			t.file = nil
		} else {
			t.unread[r] = e.Fault // its plans may hold amounts down
		}
	case RefPlan:
		if e == nil {
			delete(t.plans, r.Scope)
		} else {
			t.unread[r] = e.Fault
		}
	case RefBlock:
		_, known := t.blocks[r.Scope]
		switch {
		case e == nil:
			delete(t.blocks, r.Scope)
		case !known:
			t.blocks[r.Scope] = limits.Block{Subject: ScopeSubject(r.Scope), Reason: "the block in the store cannot be read"}
		}
	}
}

func (t *tenantView) rebuild() {
	ls := make([]limits.Limit, 0, len(t.limits))
	for _, l := range t.limits {
		ls = append(ls, l)
	}
	os := make([]limits.Override, 0, len(t.overrides))
	for _, o := range t.overrides {
		os = append(os, o)
	}
	bs := make([]limits.Block, 0, len(t.blocks))
	for _, b := range t.blocks {
		bs = append(bs, b)
	}
	ps := make([]limits.SubjectPlan, 0, len(t.plans))
	for _, p := range t.plans {
		ps = append(ps, p)
	}
	t.catalog = limits.Parts{
		Revision: t.rev, Seq: t.seq, Limits: ls, Overrides: os, Blocks: bs, File: t.file, SubjectPlans: ps,
	}.Catalog()
}

var emptyCatalog = limits.NewCatalog(0, 0, nil, nil, nil)

func (p *picture) catalogOf(tenant string) *limits.Catalog {
	if t := p.tenants[tenant]; t != nil && t.catalog != nil {
		return t.catalog
	}
	return emptyCatalog
}

// unreadable is why nothing of the tenant can be decided, nil when all its limits were read.
func (p *picture) unreadable(tenant string) error {
	if t := p.tenants[tenant]; t != nil {
		for r, fault := range t.unread {
			return fmt.Errorf("limit or plan %s%s: %w", r.Limit, r.Scope, fault)
		}
	}
	return nil
}
