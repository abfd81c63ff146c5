// Package session knows who is signed in on the admin page: what a session holds, how it is
// sealed into a cookie that every replica can open, how it ends, and links that sign somebody
// in once. It knows no HTTP and no HTML, and verifies no token: whoever starts a session has
// verified one.
//
// A session is a sealed value that the browser keeps; the store keeps only what a sealed value
// cannot say: that it was ended before its time, and the links that are still good. Both hang
// on leases, so nothing has to tidy up. Decision: ADR "Sessions of the admin page".
package session
