package main

import (
	"strings"
	"testing"
	"time"
)

// FAULTS threat 28: where etcd can be reached without certificates from beyond this machine,
// nothing is started.
func TestConfig_EtcdBeyondThisMachineNeedsCertificates(t *testing.T) {
	t.Parallel()
	certs := func(c *serverConfig) { c.EtcdCACert, c.EtcdCert, c.EtcdKey = "ca", "cert", "key" }
	member := func(peer, cluster, name string) func(*serverConfig) {
		return func(c *serverConfig) {
			c.EtcdListenPeer, c.EtcdCluster, c.EtcdName = peer, strings.Split(cluster, ","), name
		}
	}
	endpoints := func(urls ...string) func(*serverConfig) {
		return func(c *serverConfig) { c.EtcdEndpoints = urls }
	}
	for name, c := range map[string]struct {
		set  []func(*serverConfig)
		want string // "": it may start
	}{
		"its own etcd":                     {nil, ""},
		"loopback endpoints":               {[]func(*serverConfig){endpoints("http://127.0.0.1:2379", "[::1]:2379", "localhost:2379")}, ""},
		"https":                            {[]func(*serverConfig){endpoints("https://etcd-1:2379", "https://10.0.0.7:2379")}, ""},
		"no scheme, with certificates":     {[]func(*serverConfig){endpoints("etcd-1:2379"), certs}, ""},
		"http to another machine":          {[]func(*serverConfig){endpoints("http://10.0.0.7:2379")}, "beyond this machine"},
		"the same with certificates":       {[]func(*serverConfig){endpoints("http://etcd-1:2379"), certs}, "beyond this machine"},
		"no scheme, no certificates":       {[]func(*serverConfig){endpoints("etcd-1:2379")}, "beyond this machine"},
		"one of three":                     {[]func(*serverConfig){endpoints("https://a:2379", "http://b:2379", "https://c:2379")}, "http://b:2379"},
		"a name that only begins like one": {[]func(*serverConfig){endpoints("http://localhost.example:2379")}, "beyond this machine"},

		"members on loopback":           {[]func(*serverConfig){member("127.0.0.1:2380", "a=http://127.0.0.1:2380", "a")}, ""},
		"members with certificates":     {[]func(*serverConfig){member("0.0.0.0:2380", "a=https://a:2380,b=https://b:2380", "b"), certs}, ""},
		"peers open to the network":     {[]func(*serverConfig){member("0.0.0.0:2380", "a=http://127.0.0.1:2380", "a")}, "not loopback"},
		"members beyond this machine":   {[]func(*serverConfig){member("127.0.0.1:2380", "a=http://127.0.0.1:2380,b=http://b:2380", "a")}, "beyond this machine"},
		"certificates that nobody uses": {[]func(*serverConfig){member("127.0.0.1:2380", "a=http://127.0.0.1:2380", "a"), certs}, "must be https"},
		"a name that is not there":      {[]func(*serverConfig){member("127.0.0.1:2380", "a=http://127.0.0.1:2380", "c")}, "is none of"},
		"a name twice":                  {[]func(*serverConfig){member("127.0.0.1:2380", "a=http://127.0.0.1:2380,a=http://127.0.0.1:2381", "a")}, "twice"},
		"no place for peers":            {[]func(*serverConfig){member("", "a=http://127.0.0.1:2380", "a")}, "needs --etcd-listen-peer"},
		"members of no form":            {[]func(*serverConfig){member("127.0.0.1:2380", "127.0.0.1:2380", "a")}, "is no member"},
		"a name without members":        {[]func(*serverConfig){func(c *serverConfig) { c.EtcdName = "a" }}, "which of"},
		"members of another etcd":       {[]func(*serverConfig){member("127.0.0.1:2380", "a=http://127.0.0.1:2380", "a"), endpoints("http://127.0.0.1:2379")}, "belongs to the embedded"},

		"etcdctl from this machine":                     {[]func(*serverConfig){func(c *serverConfig) { c.EtcdListenClient = "127.0.0.1:2379" }}, ""},
		"etcdctl from anywhere":                         {[]func(*serverConfig){func(c *serverConfig) { c.EtcdListenClient = ":2379" }}, "not loopback"},
		"etcdctl from anywhere, who shows certificates": {[]func(*serverConfig){func(c *serverConfig) { c.EtcdListenClient = ":2379" }, certs}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := &serverConfig{Listen: "127.0.0.1:0", AdminListen: "127.0.0.1:0", DataDir: "d", RetainEnded: 15 * time.Minute}
			for _, set := range c.set {
				set(cfg)
			}
			err := cfg.validate()
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}
