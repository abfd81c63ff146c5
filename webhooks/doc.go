// Package webhooks sends events to addresses that people named.
//
// One replica at a time has the duty. It reads the event stream for each webhook, puts what is
// for it into the outbox, a bounded queue in the store, and sends it from there until the
// receiver accepts it: events of one limit one after the other, in their order. What was told and
// what was sent is in the store, so another replica goes on where this one stopped.
//
// It knows events, the outbox and HTTP. It does not know what an event looks like on the wire, nor
// who may make a webhook. It trusts no receiver: neither its address, nor its time, nor its answer.
package webhooks
