// Package httpapi is HTTP in, domain calls, HTTP out: the only home of Echo and of status codes.
//
// It knows the routes of API.md, who may call each, how bodies, headers and cursors are read,
// and which problem document each domain error becomes (problem.go, one table). It refuses to
// know how a decision is made, where anything is stored and what HTML looks like.
//
// The way of a request:
//
//	edge      request id, panic, in-flight bound, one log line, metrics       edge.go
//	route     table of method, path, access, query parameters                 routes.go
//	handle    deadline, token, scope, query, strict body, answer              handle.go
//	a verb    domain call, wire values                                        reservations.go …
//
// A handler gets the Principal as an argument and never from a context. What is another's
// looks unknown, in the body and in the work done: the domain decides it, from Caller.Sees.
//
// What is bounded: body 64 KiB, header 32 KiB, requests in flight Config.MaxInFlight,
// connections ServeOptions.MaxConns, addresses remembered by the flood guard 16,384, page 500
// entries, heartbeats 500 ids, pooled buffers 64 KiB each.
package httpapi
