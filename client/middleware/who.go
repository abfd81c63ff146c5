package middleware

import (
	"context"
	"net"
	"net/netip"
	"strings"

	"github.com/holdfast-dev/holdfast/api"
)

// maxHops bounds how much of the X-Forwarded-For is looked at.
const maxHops = 100

// nowhere is the address of a request without one (a Unix socket): all of them count as one.
const nowhere = "unknown"

// Caller is what a request tells of who sends it.
type Caller struct {
	Peer          string   // address of the connection, with or without a port
	Authorization []string // every header of that name
	Forwarded     []string // every X-Forwarded-For, in order; believed from trusted proxies alone
}

// Subject is whom a request is counted for: the subject of its token when it has one that
// verifies, else its address. A token that does not verify counts for nothing: who has no good
// token is known by the address. It is never an error: a handler behind decides who may enter.
func (g *Guard) Subject(ctx context.Context, c Caller) api.Subject {
	if token := bearer(c.Authorization); token != "" && g.cfg.Verify != nil {
		id, err := g.cfg.Verify(ctx, token)
		if err == nil && id != "" {
			return api.Subject{Kind: g.cfg.SubjectKind, ID: id}
		}
	}
	return api.Subject{Kind: g.cfg.AddressKind, ID: g.address(c)}
}

// bearer is the token of the one Authorization header there may be.
func bearer(headers []string) string {
	const scheme = "bearer "
	if len(headers) != 1 || len(headers[0]) <= len(scheme) || !strings.EqualFold(headers[0][:len(scheme)], scheme) {
		return ""
	}
	return strings.TrimLeft(headers[0][len(scheme):], " ")
}

// address is where a request comes from, as an id: an address, or the network of the first
// Config.IPv6Bits of an IPv6 one.
func (g *Guard) address(c Caller) string {
	at, ok := parseAddress(c.Peer)
	if !ok {
		return nowhere
	}
	if g.trusts(at) {
		at = g.behind(at, c.Forwarded)
	}
	if at.Is6() && g.cfg.IPv6Bits < 128 {
		network, _ := at.Prefix(g.cfg.IPv6Bits) // the bound was checked
		return network.String()
	}
	return at.String()
}

// behind is the rightmost hop that is no trusted proxy. Only what a trusted proxy wrote is read:
// each hop was written by the one to its right. A hop that is no address ends the search.
func (g *Guard) behind(proxy netip.Addr, forwarded []string) netip.Addr {
	seen := 0
	for i := len(forwarded) - 1; i >= 0; i-- {
		hops := strings.Split(forwarded[i], ",")
		for j := len(hops) - 1; j >= 0; j-- {
			at, ok := parseAddress(hops[j])
			if seen++; !ok || seen > maxHops {
				return proxy
			}
			if proxy = at; !g.trusts(at) {
				return at
			}
		}
	}
	return proxy
}

func (g *Guard) trusts(at netip.Addr) bool {
	for _, p := range g.cfg.TrustedProxies {
		if p.Contains(at) {
			return true
		}
	}
	return false
}

// parseAddress reads an IP address with or without port and brackets. A zone is dropped, since
// it names an interface of one machine, and IPv4 in IPv6 is IPv4: one caller has one address.
func parseAddress(text string) (netip.Addr, bool) {
	text = strings.TrimSpace(text)
	if host, _, err := net.SplitHostPort(text); err == nil {
		text = host
	}
	at, err := netip.ParseAddr(strings.Trim(text, "[]"))
	return at.Unmap().WithZone(""), err == nil
}
