package webhooks

import (
	"errors"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
)

// MaxURL bounds the address of a webhook, in bytes.
const MaxURL = 2_048

// What is wrong with an address, as a sentence goes on.
var (
	errURL    = errors.New("must be an absolute https URL of at most 2048 bytes, such as https://hooks.example/holdfast")
	errScheme = errors.New("must begin with https://; http:// is for networks that --webhook-allow names")
	errUser   = errors.New("must hold no user and no password; deliveries are signed")
	errHost   = errors.New("must name a host, or an address in its usual form")
	errWhere  = errors.New("must not be on this machine or in a private network; --webhook-allow names those that may be reached")
)

// CheckURL says what is wrong with the address of a webhook, as far as it can be told without
// looking up its name. What a name stands for is judged at each connection.
func (p *Policy) CheckURL(text string) error {
	if len(text) > MaxURL || strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r == '\\' || r >= 0x7f }) {
		return errURL
	}
	u, err := url.Parse(text)
	if err != nil || !u.IsAbs() || u.Opaque != "" || u.Host == "" {
		return errURL
	}
	switch {
	case u.Scheme != "https" && u.Scheme != "http", u.Scheme == "http" && len(p.allow) == 0:
		return errScheme
	case u.User != nil:
		return errUser
	case u.Fragment != "" || strings.Contains(text, "#"):
		return errURL
	}
	if port := u.Port(); port != "" {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return errHost
		}
	} else if strings.HasSuffix(u.Host, ":") {
		return errHost
	}
	return p.checkHost(u.Hostname(), u.Scheme)
}

// checkHost judges a host as it is written.
func (p *Policy) checkHost(host, scheme string) error {
	if ip, err := netip.ParseAddr(host); err == nil {
		if !p.permits(ip, scheme) {
			return errWhere
		}
		return nil
	}
	name := strings.ToLower(strings.TrimSuffix(host, "."))
	last := name[strings.LastIndexByte(name, '.')+1:]
	switch {
	case name == "" || len(name) > 253 || net.ParseIP(name) != nil || strings.ContainsAny(name, ":%[]"):
		return errHost
	case last == "" || last[0] >= '0' && last[0] <= '9':
		return errHost // 2130706433, 127.1, 0x7f.1: some resolvers take such for an address
	case last == "localhost" || last == "local" || last == "internal" || !strings.Contains(name, "."):
		if len(p.allow) == 0 {
			return errWhere
		}
	}
	return nil
}
