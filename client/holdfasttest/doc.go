// Package holdfasttest runs a Holdfast inside a test: the real HTTP handlers and the real
// decisions, on a keyspace in memory. Nothing is left of it when the test ends.
//
//	s := holdfasttest.New(t, holdfasttest.Concurrent("exports", "export", 3))
//	c := s.Client("u_42")
//	h, err := c.Reserve(t.Context(), client.Request{Action: "export"})
//	s.ExpireNow(h.ID()) // and see that the work stops
//
// It knows how to make trouble on demand: a hold that ends now, a server that is away for a
// while, answers that get lost, a clock of windows that can be set. It is no server to run
// anything on: nothing survives it and nobody else can reach it.
//
// URL opens a socket on the loopback interface. Transport needs none, and so works inside a
// bubble of testing/synctest, where a TTL of minutes takes no time at all.
package holdfasttest
