package webhooks

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// ErrAddress says that an address may not be reached.
var ErrAddress = errors.New("webhooks: the address may not be reached")

// Policy says which addresses may be reached: those of the public internet, by TLS, and those
// of networks that were allowed by name. The zero value allows no network.
type Policy struct {
	allow   []netip.Prefix
	resolve func(ctx context.Context, host string) ([]netip.Addr, error)
}

// NewPolicy allows networks beside the public internet; those may be reached without TLS, too.
func NewPolicy(allow []netip.Prefix) *Policy {
	return &Policy{allow: allow, resolve: func(ctx context.Context, host string) ([]netip.Addr, error) {
		return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	}}
}

// closed are the networks that are not the public internet (IANA's special-purpose registries),
// and those whose addresses stand for others: an IPv4 address may hide in an IPv6 one.
var closed = func() (all []netip.Prefix) {
	for text := range strings.FieldsSeq(`
		0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 169.254.0.0/16 172.16.0.0/12 192.0.0.0/24 192.0.2.0/24
		192.31.196.0/24 192.52.193.0/24 192.88.99.0/24 192.168.0.0/16 192.175.48.0/24 198.18.0.0/15 198.51.100.0/24
		203.0.113.0/24 224.0.0.0/4 240.0.0.0/4
		168.63.129.16/32
		::/16 64:ff9b::/96 64:ff9b:1::/48 100::/64 100:0:0:1::/64 2001::/23 2001:db8::/32 2002::/16 2620:4f:8000::/48
		3fff::/20 5f00::/16 fc00::/7 fe80::/10 fec0::/10 ff00::/8`) {
		all = append(all, netip.MustParsePrefix(text))
	}
	return all
}()

// permits judges one address. One with a zone is of a link, and one that is mapped is what it
// is mapped from.
func (p *Policy) permits(ip netip.Addr, scheme string) bool {
	if ip.Zone() != "" {
		return false
	}
	ip = ip.Unmap()
	for _, open := range p.allow {
		if open.Contains(ip) {
			return true
		}
	}
	if scheme != "https" || !ip.IsGlobalUnicast() {
		return false
	}
	for _, shut := range closed {
		if shut.Contains(ip) {
			return false
		}
	}
	return ip.Is4() || inUse.Contains(ip)
}

// inUse is what has been given out of IPv6.
var inUse = netip.MustParsePrefix("2000::/3")

const mostAddresses = 4 // of a name that are tried

// dialer dials for one scheme: the name is looked up once, and what was found is judged and
// dialled, so that a second answer of a name server changes nothing. The address that is
// connected to is judged once more, right before.
func (p *Policy) dialer(scheme string) func(ctx context.Context, network, address string) (net.Conn, error) {
	d := &net.Dialer{Timeout: dialWithin, Control: func(_, address string, _ syscall.RawConn) error {
		at, err := netip.ParseAddrPort(address)
		if err != nil || !p.permits(at.Addr(), scheme) {
			return fmt.Errorf("%w: %s", ErrAddress, address)
		}
		return nil
	}}
	return func(ctx context.Context, _, address string) (net.Conn, error) {
		host, port, err := net.SplitHostPort(address)
		if err != nil {
			return nil, err
		}
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil {
			return nil, err
		}
		found, err := p.lookUp(ctx, host)
		if err != nil {
			return nil, err
		}
		err = fmt.Errorf("%w: %s has none", ErrAddress, host)
		for _, ip := range found[:min(len(found), mostAddresses)] {
			if !p.permits(ip, scheme) {
				return nil, fmt.Errorf("%w: %s is %s", ErrAddress, host, ip)
			}
			var conn net.Conn
			if conn, err = d.DialContext(ctx, "tcp", netip.AddrPortFrom(ip.Unmap(), uint16(n)).String()); err == nil {
				return conn, nil
			}
		}
		return nil, err
	}
}

func (p *Policy) lookUp(ctx context.Context, host string) ([]netip.Addr, error) {
	if ip, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{ip}, nil
	}
	if err := p.checkHost(host, "https"); err != nil {
		return nil, fmt.Errorf("%w: %s", ErrAddress, host)
	}
	return p.resolve(ctx, host)
}

const dialWithin = 3 * time.Second
