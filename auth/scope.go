package auth

import "strings"

// Scope is one word of the scope claim.
type Scope string

// The scopes of API section 2. Other words in a scope claim are ignored.
const (
	ActFor      Scope = "act-for"      // act for any subject, unless narrowed by patterns
	LimitsRead  Scope = "limits:read"  // read and export limits
	LimitsWrite Scope = "limits:write" // change limits; includes LimitsRead
	HoldsRead   Scope = "holds:read"   // see every hold, waiter and subject
	HoldsForce  Scope = "holds:force"  // end others' holds; includes HoldsRead
	AuditRead   Scope = "audit:read"   // the trail
	Admin       Scope = "admin"        // all of the above
)

// order fixes each scope's bit; new scopes go at the end.
var order = [...]Scope{ActFor, LimitsRead, LimitsWrite, HoldsRead, HoldsForce, AuditRead, Admin}

// ScopeSet is a set of scopes as granted, without those they include. The zero value is empty.
type ScopeSet uint8

// ParseScopes reads a scope claim: words separated by single spaces (RFC 8693). Only the
// space separates: a tab or another blank is part of a word, which is then unknown and ignored.
func ParseScopes(claim string) ScopeSet {
	var set ScopeSet
	for word := range strings.SplitSeq(claim, " ") {
		set |= bit(Scope(word))
	}
	return set
}

// Has reports whether the set grants s, by itself or by a scope that includes it. An unknown
// scope is never granted, not even by Admin.
func (set ScopeSet) Has(s Scope) bool { return set&grantedBy(s) != 0 }

// String is the set as a scope claim, in a fixed order.
func (set ScopeSet) String() string {
	var words []string
	for _, s := range order {
		if set&bit(s) != 0 {
			words = append(words, string(s))
		}
	}
	return strings.Join(words, " ")
}

func bit(s Scope) ScopeSet {
	for i, known := range order {
		if s == known {
			return 1 << i
		}
	}
	return 0
}

// grantedBy is the set of scopes any one of which grants s.
func grantedBy(s Scope) ScopeSet {
	own := bit(s)
	if own == 0 {
		return 0
	}
	own |= bit(Admin)
	switch s {
	case LimitsRead:
		own |= bit(LimitsWrite)
	case HoldsRead:
		own |= bit(HoldsForce)
	}
	return own
}
