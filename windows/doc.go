// Package windows turns instants into slices and slices into room. It knows time arithmetic
// and nothing else: it reads no clock, does no I/O, and every function is pure.
//
// A limit counts by one of four schemes:
//
//	calendar   second … month   one count for each UTC period, half-open [start, end)
//	rolling    minute hour day  61 slices of 1/60 of the window; the oldest counts whole
//	total                       one count, for ever
//	bucket                      a level that runs down by so much a second
//
// Concurrent counts nothing here: its slots are keys of the store.
//
// # Clocks that go back
//
// Every judgement is made at the effective slice, max(SliceAt(now), Usage.High). A clock that
// went back is taken to stand at the greatest slice a write has judged, so it refuses early
// rather than re-opening what was spent.
//
// # Rolling windows
//
// In slice i the slices i-60 to i are live. Two instants less than the window apart are at
// most 60 slices apart, so no true window ever holds more than the amount; the oldest slice
// lies partly outside the window, so a refusal may come up to one slice too early.
//
//	minute, amount 10, two calls a second from T+0 (case O17)
//	T+0     T+5                     T+61    T+66
//	|■■■■■■■■|  refused …            |■■■■■■■■|  refused …
//
// # Bounds
//
// Instants: the years 1970 to 2400; for bucket up to 2262-04-11, where nanoseconds in 64 bits
// end and its clock stands still. Amounts 0 to 10^9 units (0 is closed: only a cost of 0
// fits); larger amounts are computed right but a count stops at 2^63-1, a bucket's at 9.2·10^9
// units, with ErrOverflow. A Usage is at most 61 counts.
//
// A Window whose Kind is not one of the constants counts like Total: it never forgets.
package windows
