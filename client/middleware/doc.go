// Package middleware puts Holdfast in front of handlers of net/http, and in front of calls to
// somebody else's API. Echo and gRPC have packages of their own, echomw and grpcmw, so that
// nobody carries what they do not use.
//
//	guard, err := middleware.New(middleware.Config{Client: c, Action: "call"})
//	http.ListenAndServe(addr, guard.Handler(mux))
//
// It knows whom a request is counted for and how a refusal is told. It decides nothing: the
// server does. Whom a request is counted for is the subject of a token that Config.Verify has
// verified, else the address it comes from, of which a caller can choose nothing: the peer, or
// behind trusted proxies the rightmost hop that is none.
//
// The client's own token needs the scope act-for, since it speaks for others.
package middleware
