package middleware_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/api"
	"github.com/holdfast-dev/holdfast/client/holdfasttest"
	"github.com/holdfast-dev/holdfast/client/middleware"
)

var tens = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}

// CASES O22: a caller cannot choose the address it is counted by.
func TestGuard_ANewAddressOnEachCall(t *testing.T) {
	random := func() string { return netip.AddrFrom4([4]byte{198, 51, byte(rand.N(256)), byte(rand.N(256))}).String() }
	for name, c := range map[string]struct {
		proxies []netip.Prefix
		change  func(i int, r *http.Request)
		bucket  string
	}{
		"no trusted proxy, headers that the caller wrote": {nil, func(_ int, r *http.Request) {
			r.Header.Set("X-Forwarded-For", random())
			r.Header.Set("X-Real-IP", random())
		}, "192.0.2.7"},
		"behind a trusted proxy": {tens, func(_ int, r *http.Request) {
			r.RemoteAddr = "10.0.0.2:999"
			r.Header.Set("X-Forwarded-For", random()+", 203.0.113.9")
		}, "203.0.113.9"},
		"a peer that is not trusted": {tens, func(_ int, r *http.Request) {
			r.Header.Set("X-Forwarded-For", random()+", 203.0.113.9")
		}, "192.0.2.7"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, s *holdfasttest.Server) {
				h := guard(t, s, middleware.Config{Action: "o22", TrustedProxies: c.proxies}).Handler(ok)
				if got := allowed(h, 100, c.change); got != 5 {
					t.Errorf("%d of 100 passed, want 5", got)
				}
				d, err := s.Client("front", "act-for").Preview(t.Context(), preview("o22", c.bucket))
				if err != nil || d.Allowed || d.Limits[0].Used != 5 {
					t.Errorf("the bucket of %s: %+v, %v, want 5 used", c.bucket, d, err)
				}
			}, limit("o22", "o22", 5, "minute"))
		})
	}
}

// FAULTS section 3 row 29: many headers, many hops, zones, ports, addresses in other clothes.
func TestGuard_Subject(t *testing.T) {
	t.Parallel()
	hops := slices.Repeat([]string{"10.1.1.1"}, 99)
	for name, c := range map[string]struct {
		peer      string
		forwarded []string
		bits      int
		want      string
	}{
		"the peer":                         {"192.0.2.7:1", nil, 0, "192.0.2.7"},
		"without a port":                   {"192.0.2.7", nil, 0, "192.0.2.7"},
		"IPv6":                             {"[2001:db8::1]:1", nil, 0, "2001:db8::1"},
		"IPv6 with a zone":                 {"[fe80::1%eth0]:1", nil, 0, "fe80::1"},
		"IPv6 by its site":                 {"[2001:db8:1:2:3:4:5:6]:1", nil, 64, "2001:db8:1:2::/64"},
		"IPv4 in IPv6":                     {"[::ffff:192.0.2.7]:1", nil, 64, "192.0.2.7"},
		"a Unix socket":                    {"@", nil, 0, "unknown"},
		"nothing":                          {"", []string{"203.0.113.9"}, 0, "unknown"},
		"the rightmost that is no proxy":   {"10.0.0.2:1", []string{"1.1.1.1, 203.0.113.9, 10.9.9.9"}, 0, "203.0.113.9"},
		"over many headers":                {"10.0.0.2:1", []string{"1.1.1.1", "203.0.113.9", "10.9.9.9 , 10.8.8.8"}, 0, "203.0.113.9"},
		"hops in other clothes":            {"10.0.0.2:1", []string{"[2001:db8::7%en1]:443"}, 0, "2001:db8::7"},
		"a proxy in other clothes":         {"[::ffff:10.0.0.2]:1", []string{"203.0.113.9:80"}, 0, "203.0.113.9"},
		"a hop that is none":               {"10.0.0.2:1", []string{"203.0.113.9, unknown, 10.9.9.9"}, 0, "10.9.9.9"},
		"an empty hop":                     {"10.0.0.2:1", []string{"203.0.113.9,"}, 0, "10.0.0.2"},
		"nothing but proxies":              {"10.0.0.2:1", []string{"10.3.3.3, 10.4.4.4"}, 0, "10.3.3.3"},
		"a hundred hops":                   {"10.0.0.2:1", []string{"203.0.113.9", strings.Join(hops, ",")}, 0, "203.0.113.9"},
		"more than anybody has":            {"10.0.0.2:1", []string{"203.0.113.9", strings.Join(append(hops, "10.1.1.1"), ",")}, 0, "10.1.1.1"},
		"a peer that is no trusted proxy":  {"192.0.2.7:1", []string{"10.0.0.1"}, 0, "192.0.2.7"},
		"a neighbour of the trusted range": {"11.0.0.2:1", []string{"203.0.113.9"}, 0, "11.0.0.2"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := holdfasttest.New(t)
			g := guard(t, s, middleware.Config{Action: "x", TrustedProxies: tens, IPv6Bits: c.bits})
			got := g.Subject(t.Context(), middleware.Caller{Peer: c.peer, Forwarded: c.forwarded})
			if want := (api.Subject{Kind: "ip", ID: c.want}); got != want {
				t.Errorf("%s via %q: %v, want %v", c.peer, c.forwarded, got, want)
			}
		})
	}
}

// Only a token that verifies names a subject; whoever has none that does is known by address.
func TestGuard_TokensThatVerify(t *testing.T) {
	t.Parallel()
	s := holdfasttest.New(t)
	g := guard(t, s, middleware.Config{Action: "x", SubjectKind: "account", Verify: func(_ context.Context, token string) (string, error) {
		id, good := strings.CutPrefix(token, "good-")
		if !good {
			return "u_admin", errors.New("forged")
		}
		return id, nil
	}})
	byAddress := api.Subject{Kind: "ip", ID: "192.0.2.7"}
	for name, c := range map[string]struct {
		headers []string
		want    api.Subject
	}{
		"good":                   {[]string{"Bearer good-u_42"}, api.Subject{Kind: "account", ID: "u_42"}},
		"good, small letters":    {[]string{"bearer good-u_42"}, api.Subject{Kind: "account", ID: "u_42"}},
		"forged":                 {[]string{"Bearer evil"}, byAddress},
		"good, with no subject":  {[]string{"Bearer good-"}, byAddress},
		"two, the first is good": {[]string{"Bearer good-u_42", "Bearer evil"}, byAddress},
		"another scheme":         {[]string{"Basic good-u_42"}, byAddress},
		"none":                   {nil, byAddress},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := g.Subject(t.Context(), middleware.Caller{Peer: "192.0.2.7:1", Authorization: c.headers})
			if got != c.want {
				t.Errorf("%q: %v, want %v", c.headers, got, c.want)
			}
		})
	}
}

func TestNew_ToldAllFaultsAtOnce(t *testing.T) {
	t.Parallel()
	_, err := middleware.New(middleware.Config{IPv6Bits: 129, Wait: 1, TrustedProxies: []netip.Prefix{{}}})
	for _, part := range []string{"Client", "Action", "IPv6Bits", "Wait", "TrustedProxies[0]"} {
		if !strings.Contains(fmt.Sprint(err), part) {
			t.Errorf("New: %v, want %s in it", err, part)
		}
	}
}
