package webhooks

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/reserve"
)

// hostile are addresses that no webhook may reach. Names are those of hostileNames.
var hostile = strings.Fields(`
	https://127.0.0.1/ https://127.0.0.1:443/x https://127.1.2.3/ https://127.255.255.254/ https://0.0.0.0/ https://0.1.2.3/
	https://10.0.0.1/ https://10.255.255.255/ https://172.16.0.1/ https://172.31.255.254/ https://192.168.0.1/ https://192.168.255.255/
	https://169.254.169.254/latest/meta-data/ https://169.254.170.2/v2/credentials https://169.254.0.1/ https://100.100.100.200/ https://100.64.0.1/
	https://168.63.129.16/machine https://192.0.0.192/opc/v1/ https://192.0.0.1/ https://192.0.2.1/ https://198.18.0.1/ https://198.19.255.255/
	https://198.51.100.7/ https://203.0.113.9/ https://192.88.99.1/ https://224.0.0.1/ https://239.255.255.250/ https://240.0.0.1/ https://255.255.255.255/
	https://[::1]/ https://[::]/ https://[::ffff:127.0.0.1]/ https://[::ffff:7f00:1]/ https://[::ffff:10.0.0.1]/ https://[::ffff:169.254.169.254]/
	https://[::127.0.0.1]/ https://[::ffff:0:127.0.0.1]/ https://[64:ff9b::127.0.0.1]/ https://[64:ff9b::a9fe:a9fe]/ https://[64:ff9b:1::a00:1]/
	https://[2002:7f00:1::]/ https://[2002:a9fe:a9fe::1]/ https://[2001::1]/ https://[2001:0:53aa:64c:0:0:80ff:fffe]/ https://[2001:db8::1]/
	https://[fc00::1]/ https://[fd00:ec2::254]/ https://[fe80::1]/ https://[fe80::1%25eth0]/ https://[fec0::1]/ https://[ff02::1]/ https://[100::1]/ https://[5f00::1]/ https://[3fff::1]/
	https://2130706433/ https://0x7f000001/ https://0x7f.0.0.1/ https://0177.0.0.1/ https://017700000001/ https://127.1/ https://127.0.1/ https://0/ https://1/
	https://0x7f.1/ https://127.0.0.1./ https://127.0.0.0x1/ https://3232235521/ https://2852039166/ https://169.254.43518/
	https://localhost/ https://LOCALHOST:443/ https://localhost./ https://a.localhost/ https://metadata/ https://metadata.google.internal/ https://printer.local/
	https://loopback.example/ https://private.example/ https://linklocal.example/ https://mapped.example/ https://nat64.example/ https://both.example/ https://six.example/ https://none.example/ https://rebinding.example/
	https://user:password@public.example/ https://public.example@127.0.0.1/ https://public.example#@127.0.0.1/ https://127.0.0.1\\@public.example/
	http://public.example/ http://127.0.0.1/ ftp://public.example/ file:///etc/passwd gopher://127.0.0.1:6379/_x javascript:alert(1) unix:///run/etcd.sock
	//public.example/ /x https:/// https://:443/ https://public.example:0/ https://public.example:99999/ https://public.example:/ https://[::1 https://%31%32%37.0.0.1/ https://127。0。0。1/ https://①②⑦.0.0.1/
`)

var hostileNames = map[string][]string{
	"loopback.example": {"127.0.0.1"}, "private.example": {"10.1.2.3"}, "linklocal.example": {"169.254.169.254"}, "mapped.example": {"::ffff:127.0.0.1"},
	"nat64.example": {"64:ff9b::7f00:1"}, "both.example": {"127.0.0.1", "192.168.1.1"}, "six.example": {"::1"}, "none.example": {},
}

// FAULTS section 3, row 23. What cannot be told from an address alone is refused when its name
// is looked up, before anything is connected to.
func TestPolicy_HostileAddressesAreRefused(t *testing.T) { // HF-3207
	t.Parallel()
	if len(hostile) < 80 {
		t.Fatalf("only %d addresses", len(hostile))
	}
	distinct, seen := map[string]bool{}, 0
	p := NewPolicy(nil)
	var asked atomic.Int64
	p.resolve = func(_ context.Context, host string) (out []netip.Addr, err error) {
		if host == "rebinding.example" && asked.Add(1) > 0 {
			return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil // whatever it was when the webhook was made
		}
		found, known := hostileNames[host]
		if !known && host != "public.example" { // of those that are refused for something else
			t.Errorf("%s was looked up", host)
		}
		for _, ip := range found {
			out = append(out, netip.MustParseAddr(ip))
		}
		return out, nil
	}
	post := newPoster(p, time.Second, time.Now)
	defer post.close()
	for _, address := range hostile {
		distinct[address] = true
		judged := p.CheckURL(address)
		if judged == nil {
			seen++
		}
		got := post.post(t.Context(), &reserve.Webhook{URL: address, Secret: reserve.Secret("0123456789abcdef")}, &reserve.Letter{ID: "1.0", Body: []byte("{}")})
		if judged == nil && got.trouble != troubleAddress {
			t.Errorf("%s passes as it is written, and a delivery ends with %q, want it refused as an address", address, got.trouble)
		}
		if got.trouble == accepted || got.status != 0 {
			t.Errorf("%s was reached: %+v", address, got)
		}
	}
	if len(distinct) != len(hostile) {
		t.Errorf("%d addresses, %d of them distinct", len(hostile), len(distinct))
	}
	if want := len(hostileNames) + 1; seen != want {
		t.Errorf("%d addresses pass as they are written, want the %d whose names must be looked up", seen, want)
	}
}

// Nothing listens to what is refused: with the one check before the connection the table above
// would pass though the other were missing.
func TestPolicy_TheConnectionItselfIsJudged(t *testing.T) { // HF-3207
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	for _, c := range []struct {
		allow  string
		scheme string
		ok     bool
	}{{"", "https", false}, {"", "http", false}, {"10.0.0.0/8", "http", false}, {"127.0.0.0/8", "http", true}, {"127.0.0.0/8", "https", true}} {
		p := NewPolicy(nil)
		if c.allow != "" {
			p = NewPolicy([]netip.Prefix{netip.MustParsePrefix(c.allow)})
		}
		conn, err := p.dialer(c.scheme)(t.Context(), "tcp", l.Addr().String())
		if err == nil {
			_ = conn.Close()
		}
		if (err == nil) != c.ok || !c.ok && !errors.Is(err, ErrAddress) {
			t.Errorf("allowed %q, %s: %v, want reached: %v", c.allow, c.scheme, err, c.ok)
		}
	}
}

func TestPolicy_OrdinaryAddressesPass(t *testing.T) {
	t.Parallel()
	shut, open := NewPolicy(nil), NewPolicy([]netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("fd00::/8")})
	for _, address := range strings.Fields(`https://hooks.example/holdfast https://hooks.example:8443/a?b=c https://8.8.8.8/ https://[2a00:1450:4001:80b::200e]/x https://xn--bcher-kva.example/`) {
		if err := shut.CheckURL(address); err != nil {
			t.Errorf("%s: %v", address, err)
		}
	}
	for _, address := range strings.Fields(`http://127.0.0.1:8080/ http://localhost:8080/ https://[fd00::1]/ https://receiver/`) {
		if err := open.CheckURL(address); err != nil {
			t.Errorf("%s, allowed: %v", address, err)
		}
		if err := shut.CheckURL(address); err == nil {
			t.Errorf("%s passes though nothing is allowed", address)
		}
	}
}
