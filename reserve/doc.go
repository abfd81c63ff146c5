// Package reserve is the life of a reservation, and the only place that says yes or no.
//
// It decides with pure functions of (snapshot, limits, request, now), folds what queued up
// into few guarded writes, and ends holds that nobody extended. It knows limits and windows;
// it does not know etcd, a key, a byte on the wire, HTTP or who signed a token: what it needs
// of the keyspace and of shared leases it declares as Store and Leaser.
//
//	            reserve                extend
//	(nothing) ──────────▶ held ◀─────────────┐
//	                       │ └────────────────┘
//	     ┌──────────┬──────┴──────┬───────────┐
//	  commit     release       expire       force
//	     ▼          ▼             ▼           ▼
//	 committed   released      expired      forced      ended: nothing leads back
//
// Guarantees kept here (GUARANTEES.md): never more than the amount, by the shape of the
// guards (1); never early, since expiry is counted from before the first call and ended by a
// monotonic clock that started later (2); a refusal rests on a state read after the request
// came in (4); once per Idempotency-Key (5); all limits or none, one transaction (7).
package reserve
