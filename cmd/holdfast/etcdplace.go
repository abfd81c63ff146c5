package main

import (
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// secured says whether etcd and we, or its members among themselves, prove to each other who
// they are.
func (c *serverConfig) secured() bool { return c.EtcdCACert != "" && c.EtcdCert != "" }

// validateEtcd judges where etcd is and how it is reached. Whoever reaches an etcd without
// certificates owns every hold: beyond this machine they are required (FAULTS threat 28).
func (c *serverConfig) validateEtcd(wrong func(bad bool, format string, args ...any)) {
	const need = "needs --etcd-cacert, --etcd-cert and --etcd-key: whoever reaches it owns every hold"
	external := len(c.EtcdEndpoints) > 0
	for _, flag := range [][2]string{{"--etcd-listen-client", c.EtcdListenClient}, {"--etcd-listen-peer", c.EtcdListenPeer}} {
		if flag[1] == "" {
			continue
		}
		_, _, err := net.SplitHostPort(flag[1])
		wrong(err != nil, "%s: %q is no address such as 127.0.0.1:2379", flag[0], flag[1])
		wrong(err == nil && !loopback(flag[1]) && !c.secured(), "%s %s is not loopback and %s", flag[0], flag[1], need)
		wrong(external, "%s belongs to the embedded etcd, --etcd-endpoints to another one", flag[0])
	}
	for _, endpoint := range c.EtcdEndpoints {
		scheme, host := endpointHost(endpoint)
		open := scheme == "http" || scheme == "" && c.EtcdCACert == "" && c.EtcdCert == ""
		wrong(open && !thisMachine(host), "--etcd-endpoints %s is beyond this machine: use https:// and certificates, or whoever listens in owns every hold", endpoint)
	}
	c.validateMembers(wrong, external, need)
}

// validateMembers judges the three settings that make this server a member of a cluster.
func (c *serverConfig) validateMembers(wrong func(bad bool, format string, args ...any), external bool, need string) {
	if len(c.EtcdCluster) == 0 {
		wrong(c.EtcdName != "", "--etcd-name says which of --etcd-initial-cluster this one is")
		wrong(c.EtcdListenPeer != "", "--etcd-listen-peer is for the members of --etcd-initial-cluster")
		return
	}
	wrong(external, "--etcd-initial-cluster belongs to the embedded etcd, --etcd-endpoints to another one")
	wrong(c.EtcdListenPeer == "", "--etcd-initial-cluster needs --etcd-listen-peer, where the others reach this one")
	var names []string
	for _, member := range c.EtcdCluster {
		name, raw, _ := strings.Cut(member, "=")
		u, err := url.Parse(raw)
		if err != nil || name == "" || u.Port() == "" || u.Scheme != "http" && u.Scheme != "https" {
			wrong(true, "--etcd-initial-cluster: %q is no member such as a=https://a.example:2380", member)
			continue
		}
		wrong(slices.Contains(names, name), "--etcd-initial-cluster names %s twice", name)
		wrong(!thisMachine(u.Hostname()) && !c.secured(), "--etcd-initial-cluster: %s is beyond this machine and %s", member, need)
		wrong((u.Scheme == "https") != c.secured(), "--etcd-initial-cluster: %s must be https:// with certificates, and http:// without", member)
		names = append(names, name)
	}
	wrong(!slices.Contains(names, c.EtcdName), "--etcd-name %q is none of --etcd-initial-cluster (%s)", c.EtcdName, strings.Join(names, ", "))
}

// endpointHost is the scheme ("" for none) and the host of an etcd endpoint.
func endpointHost(endpoint string) (scheme, host string) {
	scheme, rest, found := strings.Cut(endpoint, "://")
	if !found {
		scheme, rest = "", endpoint
	}
	if bare, _, err := net.SplitHostPort(rest); err == nil {
		rest = bare
	}
	return scheme, strings.Trim(rest, "[]/")
}

// thisMachine reports whether a host is this machine and no other.
func thisMachine(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}
