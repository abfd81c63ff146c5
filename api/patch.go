package api

import (
	"bytes"
	"encoding/json"
	"slices"
)

// MergePatch applies a JSON merge patch (RFC 7396) to doc: a null takes a member away, an
// object is merged into what is there, anything else takes its place. Numbers and strings
// stay as they were written.
//
// Errors: *DecodeError (InvalidBody) when patch is not strict JSON, as Decode has it; the
// same of doc, which is the caller's own and should be right.
// Cost: linear in both, but quadratic in the members of one object, which bodies bound.
func MergePatch(doc, patch []byte) ([]byte, error) {
	to, err := parseNode(doc)
	if err != nil {
		return nil, err
	}
	by, err := parseNode(patch)
	if err != nil {
		return nil, err
	}
	return to.merge(by).append(make([]byte, 0, len(doc)+len(patch))), nil
}

// PatchLimit is current with a JSON merge patch applied, in the form of PUT: null takes a
// field away, so that its default comes back; what only reads is ignored.
//
// Errors: *DecodeError, as Decode has them for the merged limit, and InvalidBody when the
// patch is no object or names what a limit does not have, be it to take it away.
func PatchLimit(current Limit, patch []byte) (LimitInput, error) {
	var merged LimitInput
	by, err := parseNode(patch)
	if err != nil {
		return merged, err
	}
	if err := by.namesOnly(planOf(limitInputType)); err != nil {
		return merged, err
	}
	doc, err := json.Marshal(current)
	if err != nil {
		return merged, err
	}
	to, err := parseNode(doc)
	if err != nil {
		return merged, err
	}
	err = Decode(to.merge(by).append(nil), &merged)
	return merged, err
}

// node is one value of a document: an object with its members, or anything else as written.
type node struct {
	raw     []byte
	object  bool
	members []member
}

type member struct {
	name  string
	value *node
}

// parseNode reads a whole document.
func parseNode(data []byte) (*node, error) {
	d := decoder{scanner: scanner{data: data}}
	d.path = d.store[:0]
	n, ok := d.node()
	switch {
	case !ok:
		d.bodyFault(d.broken)
	case d.peek() != 0 || d.pos < len(d.data):
		d.bodyFault("has something after its one value")
	}
	return n, d.err()
}

func (d *decoder) node() (*node, bool) {
	if d.peek() != '{' {
		start := d.pos
		if !d.skip() {
			return nil, false
		}
		return &node{raw: d.data[start:d.pos]}, true
	}
	if !d.open() {
		return nil, false
	}
	n := &node{object: true}
	for first := true; ; first = false {
		another, ok := d.more('}', first)
		if !ok || !another {
			return n, ok
		}
		raw, ok := d.name()
		if !ok {
			return nil, false
		}
		name := string(raw)
		d.push(name, -1)
		if n.find(name) >= 0 {
			d.bodyFault("is there twice")
		}
		value, ok := d.node()
		if !ok {
			return nil, false
		}
		n.members = append(n.members, member{name, value})
		d.pop()
	}
}

func (n *node) find(name string) int {
	return slices.IndexFunc(n.members, func(m member) bool { return m.name == name })
}

func (n *node) null() bool { return !n.object && bytes.Equal(n.raw, []byte("null")) }

// merge is n with the patch applied; n may be nil, for nothing.
func (n *node) merge(patch *node) *node {
	if !patch.object {
		return patch
	}
	merged := &node{object: true}
	if n != nil && n.object {
		merged.members = slices.Clone(n.members)
	}
	for _, m := range patch.members {
		i := merged.find(m.name)
		switch {
		case m.value.null() && i >= 0:
			merged.members = slices.Delete(merged.members, i, i+1)
		case m.value.null():
		case i >= 0:
			merged.members[i].value = merged.members[i].value.merge(m.value)
		default:
			merged.members = append(merged.members, member{m.name, (*node)(nil).merge(m.value)})
		}
	}
	return merged
}

// append writes n as JSON.
func (n *node) append(dst []byte) []byte {
	if !n.object {
		return append(dst, n.raw...)
	}
	dst = append(dst, '{')
	for i, m := range n.members {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(appendString(dst, m.name), ':')
		dst = m.value.append(dst)
	}
	return append(dst, '}')
}

// namesOnly refuses a node that is no object, or has names that the plan does not know.
func (n *node) namesOnly(p *plan) error {
	d := decoder{}
	if !n.object {
		d.bodyFault("must be an object")
		return d.err()
	}
	for _, m := range n.members {
		if p.find([]byte(m.name)) < 0 {
			d.push(m.name, -1)
			d.bodyFault(p.unknown(m.name))
			d.pop()
		}
	}
	return d.err()
}
