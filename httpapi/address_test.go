package httpapi

import (
	"net/http"
	"net/netip"
	"strings"
	"testing"
)

func TestAddressOf(t *testing.T) { // FAULTS section 3 row 29, CASES O22
	t.Parallel()
	proxies := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")}
	for _, one := range []struct {
		name    string
		trusted []netip.Prefix
		peer    string
		hops    []string
		want    string
	}{
		{"no proxy is trusted by default", nil, "127.0.0.1:4711", []string{"203.0.113.9"}, "127.0.0.1"},
		{"the rightmost foreign hop", proxies, "10.0.0.2:1", []string{"198.51.100.7, 203.0.113.9"}, "203.0.113.9"},
		{"through two proxies", proxies, "10.0.0.2:1", []string{"198.51.100.7, 203.0.113.9, 10.1.1.1"}, "203.0.113.9"},
		{"over several headers", proxies, "10.0.0.2:1", []string{"198.51.100.7", "203.0.113.9", "10.9.9.9"}, "203.0.113.9"},
		{"a peer that is no proxy", proxies, "192.0.2.7:1", []string{"203.0.113.9"}, "192.0.2.7"},
		{"nobody but proxies", proxies, "10.0.0.2:1", []string{"10.0.0.1"}, "10.0.0.1"},
		{"no header", proxies, "10.0.0.2:1", nil, "10.0.0.2"},
		{"what cannot be read", proxies, "10.0.0.2:1", []string{"203.0.113.9, nonsense"}, "10.0.0.2"},
		{"an empty hop", proxies, "10.0.0.2:1", []string{"203.0.113.9,"}, "10.0.0.2"},
		{"brackets and a port", proxies, "10.0.0.2:1", []string{"[2001:db8::1]:443"}, "2001:db8::1"},
		{"IPv4 in IPv6", proxies, "[::ffff:10.0.0.2]:1", []string{"::ffff:203.0.113.9"}, "203.0.113.9"},
		{"a zone is dropped", proxies, "[fe80::1%eth0]:1", []string{"203.0.113.9"}, "fe80::1"},
		{"100 hops and more", proxies, "10.0.0.2:1", []string{strings.Repeat("10.0.0.1,", 200) + "10.0.0.1"}, "10.0.0.1"},
		{"no peer", proxies, "@", []string{"203.0.113.9"}, ""},
	} {
		r := &http.Request{RemoteAddr: one.peer, Header: http.Header{}}
		for _, h := range one.hops {
			r.Header.Add("X-Forwarded-For", h)
		}
		r.Header.Set("X-Real-IP", "198.51.100.99")
		if got := addressOf(one.trusted)(r); got != one.want {
			t.Errorf("%s: peer %s, hops %v: got %q, want %q", one.name, one.peer, one.hops, got, one.want)
		}
	}
}
