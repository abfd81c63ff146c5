// Package events tells what happened: reservations that began and ended, limits that changed,
// checks that were refused.
//
// An event is not kept anywhere of its own. It is read off the changes of the keyspace, by a pure
// function of one revision's changes, so that every replica makes the same events of the same
// revision and gives them the same ids, and a reader may go on at another replica. What happened
// lately is kept in memory, per tenant and within a bound; what is older is read from the store's
// own history, as far as that goes back; before that there is a gap, which is told.
//
// It knows the keyspace as package reserve names it, and who may see what only by a function it is
// given. It does not know HTTP, nor what an event looks like on the wire.
package events
