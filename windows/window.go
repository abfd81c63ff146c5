package windows

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Kind says what makes use count and be forgotten.
type Kind uint8

// The kinds of windows.
const (
	Second Kind = iota + 1
	Minute
	Hour
	Day
	Week
	Month
	Total
	Concurrent
	Bucket
)

// kindNames are the words of the API, indexed by Kind; index 0 is no kind.
var kindNames = [...]string{
	"", "second", "minute", "hour", "day", "week", "month", "total", "concurrent", "bucket",
}

// String is the API's word for k, or kind(n) for a value that is none of the constants.
func (k Kind) String() string {
	if k == 0 || int(k) >= len(kindNames) {
		return fmt.Sprintf("kind(%d)", uint8(k))
	}
	return kindNames[k]
}

// MarshalText is String for known kinds and an error for any other value.
func (k Kind) MarshalText() ([]byte, error) {
	if k == 0 || int(k) >= len(kindNames) {
		return nil, fmt.Errorf("windows: no such kind: %d", uint8(k))
	}
	return []byte(kindNames[k]), nil
}

// Window is the kind of a limit's window, whether it rolls, and how fast a bucket refills.
type Window struct {
	Kind    Kind
	Rolling bool  // Minute, Hour and Day only; without effect on any other kind
	Refill  int64 // nano-units per second, 1 to 10^18; Bucket only
}

// Parse reads the API's word for a window. A bucket's Refill is left for the caller to set.
//
// Errors: a word that is not one of "second" to "bucket" (letter case counts), and rolling
// for anything but minute, hour and day. The message names what would have been right.
func Parse(name string, rolling bool) (Window, error) {
	i := slices.Index(kindNames[1:], name)
	if i < 0 {
		return Window{}, fmt.Errorf("windows: unknown window %q: want one of %s",
			name, strings.Join(kindNames[1:], ", "))
	}
	w := Window{Kind: Kind(i + 1), Rolling: rolling}
	if rolling && !w.rolls() {
		return Window{}, fmt.Errorf("windows: window %q cannot roll: only minute, hour and day can", name)
	}
	return w, nil
}

// Counting reports whether use adds up in a Usage: true for everything but Concurrent.
func (w Window) Counting() bool { return w.Kind != Concurrent }

// Seconds is the length of the window in seconds as RateLimit-Policy states it: that of the
// present month for Month; 0 for Total, Bucket and Concurrent, which have no length.
func (w Window) Seconds(now time.Time) int64 {
	if w.Kind == Month {
		return monthSeconds(monthAt(now))
	}
	return w.length()
}

// Keep is how long from now a count charged now must be remembered.
//
// Rolling: the window and one slice. Calendar: up to the end of the present period and one
// second more, the grain of etcd leases. Total: 0, meaning for ever. Bucket: 0 as well, as it
// depends on the level: the caller asks FullRefill, or ResetAt where the level may be above
// the amount. Concurrent: 0, it has nothing to remember.
func (w Window) Keep(now time.Time) time.Duration {
	switch {
	case w.rolls():
		return time.Duration(w.length()+w.grain()) * time.Second
	case w.calendar():
		return w.Start(w.SliceAt(now)+1).Sub(now) + time.Second
	}
	return 0
}

// rolls reports whether use leaves slice by slice.
func (w Window) rolls() bool {
	return w.Rolling && (w.Kind == Minute || w.Kind == Hour || w.Kind == Day)
}

// calendar reports whether use leaves all at once, at a UTC boundary.
func (w Window) calendar() bool {
	return w.Kind >= Second && w.Kind <= Month && !w.rolls()
}
