package reserve

import (
	"crypto/rand"
	"encoding/base32"
	"errors"
	"time"

	"github.com/holdfast-dev/holdfast/limits"
	"github.com/holdfast-dev/holdfast/windows"
)

// Bounds of a reservation. TTLs are whole seconds; etcd does not validate them, so we do.
const (
	MinTTL         = 2 * time.Second
	MaxTTL         = time.Hour
	DefaultTTL     = 5 * time.Minute
	MaxCost        = int64(1_000_000_000)
	MaxOwnerName   = 128  // bytes
	MaxOwnerURL    = 1024 // bytes
	MaxLabels      = 16
	MaxLabelKey    = 64  // bytes
	MaxLabelValue  = 256 // bytes
	MaxReason      = 512 // bytes, of a release or a force-release
	idPrefix       = "rsv_"
	idTextLength   = 26
	beatsPerTTL    = 3 // a heartbeat is advised each third of the TTL
	millisecondsIn = int64(time.Second / time.Millisecond)
)

// ID names a reservation: 128 bits, random or derived from an Idempotency-Key.
type ID [16]byte

var idText = base32.NewEncoding("0123456789ABCDEFGHJKMNPQRSTVWXYZ").WithPadding(base32.NoPadding)

// NewID draws a random id.
func NewID() (id ID) {
	_, _ = rand.Read(id[:]) // crypto/rand.Read never fails: it ends the process instead
	return id
}

// String is rsv_ and 26 base32 characters.
func (id ID) String() string {
	var text [len(idPrefix) + idTextLength]byte
	copy(text[:], idPrefix)
	idText.Encode(text[len(idPrefix):], id[:])
	return string(text[:])
}

// ErrBadID is returned by ParseID for text that is no id.
var ErrBadID = errors.New("reserve: not a reservation id")

// ParseID reads what String wrote, and nothing else.
func ParseID(s string) (id ID, err error) {
	if len(s) != len(idPrefix)+idTextLength || s[:len(idPrefix)] != idPrefix {
		return ID{}, ErrBadID
	}
	if _, err := idText.Decode(id[:], []byte(s[len(idPrefix):])); err != nil {
		return ID{}, ErrBadID
	}
	if id.String() != s { // the last character carries two unused bits
		return ID{}, ErrBadID
	}
	return id, nil
}

// State is where a reservation stands. Only Held has a way out.
type State uint8

// The states. Aborted marks an attempt whose outcome was unknown and that can no longer
// take effect; it counts as "never was".
const (
	Held State = iota + 1
	Committed
	Released
	Expired
	Forced
	Aborted
)

var stateNames = [...]string{"", "held", "committed", "released", "expired", "forced", "aborted"}

// String is the state's word in the API.
func (s State) String() string {
	if int(s) < len(stateNames) {
		return stateNames[s]
	}
	return "unknown"
}

// Owner says who works under a hold; told by the caller, shown to people, trusted by nobody.
type Owner struct {
	Name, Host, URL string
	PID             int64
}

// Place is one slot a reservation takes: slot N of a concurrent limit within a scope.
// A reservation that takes no slot has none and hangs on its own hold key instead.
type Place struct {
	Limit, Scope string
	N            int64
}

// Charge is cost put into one limit's counts; Slice says where, so that a refund finds it.
type Charge struct {
	Limit, Scope string
	Generation   int64
	Slice        windows.Slice
	Cost         int64
}

// Record is what was promised and charged, to whom and by whom. While open it is written
// once and never changed; once settled it is kept for its retention with the end filled in.
type Record struct {
	ID        ID
	State     State
	Subject   limits.Subject
	Action    limits.Action
	Cost      int64
	TTL       time.Duration // asked for at the start, whole seconds
	Principal string        // who made it: auth's stable identity of the caller
	Keyed     bool          // made under an Idempotency-Key
	Body      [16]byte      // digest of the request's body; zero unless Keyed
	CreatedAt time.Time     // millisecond grain
	Places    []Place
	Charges   []Charge
	Owner     Owner
	Labels    map[string]string

	Fence             int64 // create revision of its slots; filled in when ended (while open the slots tell)
	EndedAt           time.Time
	EndedBy           string // principal, or "" when it expired
	Note              string // reason of a release or a force-release
	Charged, Refunded int64  // of the cost, when ended
}

// Slot is the value of a slot key (or hold key): who is in it, and the sand-glass it runs by.
type Slot struct {
	Hold  ID
	TTL   time.Duration // whole seconds, from Beat
	Since time.Time     // granted, millisecond grain
	Beat  time.Time     // last heartbeat, or the grant; wall clock of the replica that wrote it
	Beats int64         // heartbeats so far
	Name  string        // Owner.Name and Owner.Host, so that a refusal can name holders
	Host  string
}

// Counts is the counting state of one scope: every counting limit of one subject in one
// value, ascending by limit id.
type Counts []LimitCount

// LimitCount is what one limit has counted. A generation other than the limit's counts as nothing.
type LimitCount struct {
	Limit      string
	Generation int64
	Use        windows.Usage
}

// Replay is the remembered answer to a consume with an Idempotency-Key.
type Replay struct {
	State     State // Committed, or Aborted
	Principal string
	Body      [16]byte
	At        time.Time
}
