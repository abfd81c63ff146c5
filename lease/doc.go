// Package lease hands out etcd leases that many keys share: the wheel of DESIGN.md section 6.
//
// It knows how long a key must last at least, when a lease it granted ends at the soonest, and
// whether this process's clock can be trusted (the freshness marker). It refuses to know what
// the keys are. The wheel never revokes a lease and never keeps one alive: an emptied lease runs
// out. Beside it there is one lease that is kept alive, the Session, for keys that are to go with
// this process and promise nothing.
//
// # Never early
//
// A lease for keep is granted for keep + Surplus, counted from a reading of the clock before
// the grant was sent. If the clock runs, the lease cannot end before the wheel believes. If
// the clock stood still (a suspended machine, a paused process), the wheel believes an old
// lease to be longer than it is, by the time that was lost. The loss is bounded:
//
//   - The marker is a key on a lease of MarkerTTL. Every batch that puts a key on a lease
//     compares the marker's create revision in the same transaction. So, when a batch commits,
//     at most MarkerTTL and a scan of etcd's (about a second) have passed since the marker's
//     lease was granted, whatever this clock says.
//   - After each such grant and before the marker is moved to it, the wheel compares its clock
//     with what etcd says is left of a long lease, the anchor. More than 1.5 s lost in all, and
//     every lease is forgotten. So many short stops cannot add up.
//
// Together that is less than Surplus: a key lasts keep from the moment the caller asked.
//
// # Order
//
// A caller takes the Marker first and the Leases after it. The other way round, the marker
// could be lost and made anew in between, and would vouch for a lease older than itself.
package lease
