package httpapi

import (
	"net"
	"net/http"
	"net/netip"
	"strings"

	"github.com/labstack/echo/v4"
)

// maxHops bounds how much of an X-Forwarded-For is looked at.
const maxHops = 100

// AddressOf says where a request comes from, as the log and the flood guard have it: the peer,
// or behind trusted proxies the rightmost hop that is none.
func AddressOf(trusted []netip.Prefix) func(*http.Request) string { return addressOf(trusted) }

// addressOf says where a request comes from: the peer, or, when the peer is a trusted proxy,
// the rightmost hop that is none. Nothing else a client can write is believed. An address is
// never an identity (FAULTS section 3 row 29).
func addressOf(trusted []netip.Prefix) echo.IPExtractor {
	trusts := func(a netip.Addr) bool {
		for _, p := range trusted {
			if p.Contains(a) {
				return true
			}
		}
		return false
	}
	return func(r *http.Request) string {
		peer, ok := parseAddress(r.RemoteAddr)
		if !ok {
			return ""
		}
		if len(trusted) == 0 || !trusts(peer) {
			return peer.String()
		}
		hops := r.Header["X-Forwarded-For"]
		for i, seen := len(hops)-1, 0; i >= 0; i-- {
			for rest, more := hops[i], true; more; seen++ {
				var hop string
				rest, hop, more = cutLast(rest)
				at, ok := parseAddress(hop)
				if !ok || seen == maxHops {
					return peer.String()
				}
				if peer = at; !trusts(at) {
					return at.String()
				}
			}
		}
		return peer.String()
	}
}

// cutLast takes the last element off a comma-separated list.
func cutLast(list string) (rest, last string, more bool) {
	i := strings.LastIndexByte(list, ',')
	if i < 0 {
		return "", list, false
	}
	return list[:i], list[i+1:], true
}

// parseAddress reads an IP address with or without a port, brackets or a zone, which is
// dropped: it means something on one machine alone. IPv4 in IPv6 is IPv4.
func parseAddress(s string) (netip.Addr, bool) {
	s = strings.TrimSpace(s)
	if host, _, err := net.SplitHostPort(s); err == nil {
		s = host
	}
	s = strings.TrimSuffix(strings.TrimPrefix(s, "["), "]")
	a, err := netip.ParseAddr(s)
	return a.Unmap().WithZone(""), err == nil
}
