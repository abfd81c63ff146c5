package store

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/holdfast-dev/holdfast/limits"
	"github.com/holdfast-dev/holdfast/reserve"
)

// parse is the inverse of append: ok only for exactly what append writes for a ref whose names
// are not empty. Anything else under our root is somebody else's and left alone.
//
// Cost: one allocation, the names share it; one more for each name that has an escape.
func (k keyspace) parse(key []byte) (r reserve.Ref, ok bool) {
	if !bytes.HasPrefix(key, []byte(k.root)) {
		return r, false
	}
	rest := string(key[len(k.root):])
	if name, found := strings.CutPrefix(rest, tenantsWord); found {
		tenant, rest, more := strings.Cut(name, "/")
		if r.Tenant, ok = component(tenant); !ok || !more {
			return reserve.Ref{}, false
		}
		return parseTenant(r, rest)
	}
	if name, found := strings.CutPrefix(rest, replicasWord); found {
		r.Kind = reserve.RefReplica
		r.Scope, ok = component(name)
		return r, ok
	}
	if name, found := strings.CutPrefix(rest, secretsWord); found {
		r.Kind = reserve.RefSecret
		r.Scope, ok = component(name)
		return r, ok
	}
	if name, found := strings.CutPrefix(rest, dutiesWord); found {
		r.Kind = reserve.RefDuty
		r.Scope, ok = component(name)
		return r, ok
	}
	return r, false
}

// tenantOf is the prefix of the tenant that a key under tenants() lies in, and the tenant's
// name; ok is false when the name is spelt otherwise than we do. There is no prefix when the
// key has no tenant.
func (k keyspace) tenantOf(key []byte) (prefix, name string, ok bool) {
	rest := string(key[len(k.tenants()):])
	spelt, _, found := strings.Cut(rest, "/")
	if !found {
		return "", "", false
	}
	name, ok = component(spelt)
	return k.tenants() + spelt + "/", name, ok
}

// parseTenant reads what follows the tenant.
func parseTenant(r reserve.Ref, rest string) (_ reserve.Ref, ok bool) {
	switch rest {
	case catalogWord:
		r.Kind = reserve.RefCatalog
		return r, true
	case fileWord:
		r.Kind = reserve.RefFile
		return r, true
	}
	word, rest, _ := strings.Cut(rest, "/")
	switch word {
	case families[reserve.RefLimit]:
		r.Kind = reserve.RefLimit
		r.Limit, ok = component(rest)
	case families[reserve.RefOverride]:
		r.Kind = reserve.RefOverride
		name, scope, one := strings.Cut(rest, "/")
		if r.Limit, ok = component(name); ok && one {
			r.Scope, ok = subject(scope)
		}
	case families[reserve.RefPlan]:
		r.Kind = reserve.RefPlan
		r.Scope, ok = subject(rest)
	case families[reserve.RefBlock]:
		r.Kind = reserve.RefBlock
		r.Scope, ok = subject(rest)
	case families[reserve.RefSlot]:
		r.Kind = reserve.RefSlot
		return parseNumbered(r, rest, readSlot)
	case families[reserve.RefUsage]:
		r.Kind = reserve.RefUsage
		if name, all := strings.CutPrefix(rest, allWord+"/"); all {
			r.Scope = limits.AllScope
			r.Limit, ok = component(name)
			break
		}
		r.Scope, ok = subject(rest)
	case families[reserve.RefWebhook], families[reserve.RefDelivery]:
		if r.Kind = reserve.RefWebhook; word == families[reserve.RefDelivery] {
			r.Kind = reserve.RefDelivery
		}
		r.Scope, ok = component(rest)
	case families[reserve.RefParcel]:
		r.Kind = reserve.RefParcel
		name, rank, _ := strings.Cut(rest, "/")
		if r.Scope, ok = component(name); ok {
			r.N, ok = readRank(rank)
		}
	case families[reserve.RefExceeded]:
		r.Kind = reserve.RefExceeded
		name, scope, _ := strings.Cut(rest, "/")
		if r.Limit, ok = component(name); ok && scope == allWord {
			r.Scope = limits.AllScope
		} else if ok {
			r.Scope, ok = subject(scope)
		}
	case families[reserve.RefTrail]:
		r.Kind = reserve.RefTrail
		r.N, ok = readRank(rest)
	case families[reserve.RefRollup], families[reserve.RefTally]:
		if r.Kind = reserve.RefRollup; word == families[reserve.RefTally] {
			r.Kind = reserve.RefTally
		}
		name, hour, _ := strings.Cut(rest, "/")
		if r.Limit, ok = component(name); ok {
			r.N, ok = readRank(hour)
		}
	case families[reserve.RefHold]:
		return parseID(r, reserve.RefHold, rest)
	case families[reserve.RefOpen]:
		return parseID(r, reserve.RefOpen, rest)
	case families[reserve.RefEnded]:
		return parseID(r, reserve.RefEnded, rest)
	case families[reserve.RefReplay]:
		return parseID(r, reserve.RefReplay, rest)
	case families[reserve.RefTicket]:
		r.Kind = reserve.RefTicket
		return parseNumbered(r, rest, readRank)
	}
	return r, ok
}

// parseNumbered reads <limit>/<scope>/<n>.
func parseNumbered(r reserve.Ref, rest string, number func(string) (int64, bool)) (_ reserve.Ref, ok bool) {
	name, rest, _ := strings.Cut(rest, "/")
	last := strings.LastIndexByte(rest, '/')
	if last < 0 {
		return r, false
	}
	if r.Limit, ok = component(name); !ok {
		return r, false
	}
	if r.Scope = limits.AllScope; rest[:last] != allWord {
		if r.Scope, ok = subject(rest[:last]); !ok {
			return r, false
		}
	}
	r.N, ok = number(rest[last+1:])
	return r, ok
}

// readSlot reads a plain decimal.
func readSlot(digits string) (int64, bool) {
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n < 0 || digits[0] == '+' || digits[0] == '-' || digits[0] == '0' && len(digits) > 1 {
		return 0, false
	}
	return n, true
}

// readRank reads what appendRank wrote.
func readRank(digits string) (int64, bool) {
	n, err := strconv.ParseUint(digits, 10, 63)
	return int64(n), err == nil && len(digits) == rankDigits
}

func parseID(r reserve.Ref, kind reserve.RefKind, text string) (_ reserve.Ref, ok bool) {
	if len(text) != idTextLength {
		return r, false
	}
	id, err := reserve.ParseID(idPrefix + text)
	r.Kind, r.ID = kind, id
	return r, err == nil
}

// subject reads <kind>/<id> and gives a limits.Subject's Scope.
func subject(text string) (scope string, ok bool) {
	kind, id, two := strings.Cut(text, "/")
	if !two || kind == allWord {
		return "", false
	}
	rawKind := allWord
	if kind != allKind {
		if rawKind, ok = component(kind); !ok || strings.IndexByte(rawKind, '/') >= 0 {
			return "", false
		}
	}
	rawID, ok := component(id)
	if !ok {
		return "", false
	}
	if len(rawKind) == len(kind) && len(rawID) == len(id) {
		return text, true // nothing was escaped
	}
	return rawKind + "/" + rawID, true
}

// component reads what appendComponent wrote; ok is false for any other spelling.
func component(s string) (raw string, ok bool) {
	escaped := false
	for i := 0; i < len(s); i++ {
		if !plain[s[i]] {
			if s[i] != '%' {
				return "", false
			}
			escaped = true
		}
	}
	if !escaped {
		return s, s != "" && s != "." && s != ".."
	}
	return unescape(s)
}

// unescape reads a component that has escapes. Writing it again is the simplest proof that it
// is spelt the one right way.
func unescape(s string) (raw string, ok bool) {
	b := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] != '%' {
			b = append(b, s[i])
			continue
		}
		if len(s)-i < 3 {
			return "", false
		}
		high, low := strings.IndexByte(upperHex, s[i+1]), strings.IndexByte(upperHex, s[i+2])
		if high < 0 || low < 0 {
			return "", false
		}
		b = append(b, byte(high<<4|low))
		i += 2
	}
	raw = string(b)
	return raw, string(appendComponent(nil, raw)) == s
}
