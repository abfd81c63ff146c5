package store

import (
	"encoding/base32"
	"encoding/binary"
	"strconv"
	"strings"

	"github.com/holdfast-dev/holdfast/limits"
	"github.com/holdfast-dev/holdfast/reserve"
)

// Words of the layout (DESIGN.md section 3). Keys under a tenant that begin with another word
// are not ours to read.
const (
	tenantsWord  = "t/"
	replicasWord = "replicas/"
	secretsWord  = "secrets/"
	dutiesWord   = "duties/"
	catalogWord  = "catalog"
	fileWord     = "file"
	allWord      = "_" // stands where a subject's kind would: share all
	allKind      = "%5F"
)

// families are the words after the tenant; each key of a family goes on with "/".
var families = [...]string{
	reserve.RefLimit:    "limits",
	reserve.RefOverride: "overrides",
	reserve.RefPlan:     "plans",
	reserve.RefBlock:    "blocks",
	reserve.RefSlot:     "slots",
	reserve.RefHold:     "holds",
	reserve.RefOpen:     "open",
	reserve.RefEnded:    "ended",
	reserve.RefUsage:    "usage",
	reserve.RefReplay:   "replays",
	reserve.RefTicket:   "line",
	reserve.RefTrail:    "audit",
	reserve.RefRollup:   "rollups",
	reserve.RefTally:    "tallies",
	reserve.RefExceeded: "marks",
	reserve.RefWebhook:  "webhooks",
	reserve.RefDelivery: "deliveries",
	reserve.RefParcel:   "outbox",
}

// idText is reserve.ID's, without its prefix: ascending ids are ascending keys.
var idText = base32.NewEncoding("0123456789ABCDEFGHJKMNPQRSTVWXYZ").WithPadding(base32.NoPadding)

const (
	idTextLength = 26
	idPrefix     = "rsv_"
)

// plain marks the bytes that stand for themselves in a component.
var plain = func() (p [256]bool) {
	for _, c := range []byte("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._~-") {
		p[c] = true
	}
	return p
}()

// keyspace spells keys. Distinct refs have distinct keys, and none is another followed by "/",
// but for the override for everyone, which nobody ranges over. Cost: one allocation a key.
type keyspace struct {
	root string // ends in "/"
}

func newKeyspace(root string) keyspace { return keyspace{root: root} }

// key is the key of r.
func (k keyspace) key(r reserve.Ref) []byte {
	const fixed = len("t//overrides///") + idTextLength + 20 // an id or a slot's number
	return k.append(make([]byte, 0, len(k.root)+len(r.Tenant)+len(r.Limit)+len(r.Scope)+fixed), r)
}

// append appends the key of r to b.
func (k keyspace) append(b []byte, r reserve.Ref) []byte {
	b = append(b, k.root...)
	switch r.Kind {
	case reserve.RefReplica:
		return appendComponent(append(b, replicasWord...), r.Scope)
	case reserve.RefSecret:
		return appendComponent(append(b, secretsWord...), r.Scope)
	case reserve.RefDuty:
		return appendComponent(append(b, dutiesWord...), r.Scope)
	}
	b = appendComponent(append(b, tenantsWord...), r.Tenant)
	b = append(b, '/')
	switch r.Kind {
	case reserve.RefCatalog:
		return append(b, catalogWord...)
	case reserve.RefFile:
		return append(b, fileWord...)
	}
	b = append(append(b, families[r.Kind]...), '/')
	switch r.Kind {
	case reserve.RefLimit:
		return appendComponent(b, r.Limit)
	case reserve.RefOverride:
		b = appendComponent(b, r.Limit)
		if r.Scope == "" {
			return b
		}
		return appendScope(append(b, '/'), r.Scope)
	case reserve.RefPlan, reserve.RefBlock:
		return appendScope(b, r.Scope)
	case reserve.RefSlot:
		b = append(appendComponent(b, r.Limit), '/')
		b = append(appendScope(b, r.Scope), '/')
		// Plain decimal, of no fixed width: nobody pages through slots by their number.
		return strconv.AppendInt(b, r.N, 10)
	case reserve.RefTicket:
		b = append(appendComponent(b, r.Limit), '/')
		b = append(appendScope(b, r.Scope), '/')
		return appendRank(b, r.N)
	case reserve.RefWebhook, reserve.RefDelivery:
		return appendComponent(b, r.Scope)
	case reserve.RefParcel:
		return appendRank(append(appendComponent(b, r.Scope), '/'), r.N)
	case reserve.RefExceeded:
		return appendScope(append(appendComponent(b, r.Limit), '/'), r.Scope)
	case reserve.RefTrail:
		return appendRank(b, r.N)
	case reserve.RefRollup, reserve.RefTally:
		return appendRank(append(appendComponent(b, r.Limit), '/'), r.N)
	case reserve.RefUsage:
		b = appendScope(b, r.Scope)
		if r.Scope == limits.AllScope {
			b = appendComponent(append(b, '/'), r.Limit)
		}
		return b
	}
	return idText.AppendEncode(b, r.ID[:]) // holds, open, ended, replays
}

// rankDigits is the width of a rank, so that the order of keys is that of the line.
const rankDigits = 20

// appendRank appends n ≥ 0 in rankDigits digits.
func appendRank(b []byte, n int64) []byte {
	var digits [rankDigits]byte
	for i := len(digits) - 1; i >= 0; i-- {
		digits[i] = byte('0' + n%10)
		n /= 10
	}
	return append(b, digits[:]...)
}

// family begins every key of one kind of a tenant and ends in "/". The catalogue and the
// file are none.
func (k keyspace) family(tenant string, kind reserve.RefKind) string {
	b := appendComponent(append([]byte(k.root), tenantsWord...), tenant)
	b = append(append(b, '/'), families[kind]...)
	return string(append(b, '/'))
}

// tenant begins every key of one tenant.
func (k keyspace) tenant(name string) string {
	return string(appendComponent(append([]byte(k.root), tenantsWord...), name)) + "/"
}

// tenants begins every key of every tenant.
func (k keyspace) tenants() string { return k.root + tenantsWord }

// replicas begins every replica's key.
func (k keyspace) replicas() string { return k.root + replicasWord }

// sharedUsage begins the keys of a tenant's counts that all subjects share.
func (k keyspace) sharedUsage(tenant string) string {
	return k.family(tenant, reserve.RefUsage) + allWord + "/"
}

// idsFrom is the first key of a family of ids whose first 8 bytes are at least at.
func idsFrom(family string, at uint64) string {
	var id reserve.ID
	binary.BigEndian.PutUint64(id[:8], at)
	return family + idText.EncodeToString(id[:])
}

// end is the first key after all that begin with prefix, which ends in "/".
func end(prefix string) string { return prefix[:len(prefix)-1] + "0" } // "0" follows "/"

// after is the first key that can follow key.
func after(key []byte) string { return string(key) + "\x00" }

// appendScope appends a subject's kind and id as two components, or the one that says "all".
func appendScope(b []byte, scope string) []byte {
	if scope == limits.AllScope {
		return append(b, allWord...)
	}
	kind, id, two := strings.Cut(scope, "/")
	if kind == allWord {
		b = append(b, allKind...)
	} else {
		b = appendComponent(b, kind)
	}
	if two {
		b = appendComponent(append(b, '/'), id)
	}
	return b
}

// appendComponent escapes s so that it has no "/", and is neither "." nor "..", which tools
// take for something else.
func appendComponent(b []byte, s string) []byte {
	if s == "." || s == ".." {
		for range len(s) {
			b = append(b, "%2E"...)
		}
		return b
	}
	from := 0
	for i := 0; i < len(s); i++ {
		if !plain[s[i]] {
			b = append(b, s[from:i]...)
			b = append(b, '%', upperHex[s[i]>>4], upperHex[s[i]&15])
			from = i + 1
		}
	}
	return append(b, s[from:]...)
}

const upperHex = "0123456789ABCDEF"
