package main

import (
	"net"
	"net/netip"
	"strings"
	"time"
)

// serverConfig is everything that serve and dev can be told, in one place. Flags go over
// HOLDFAST_* variables, those over the --config file, that over the defaults.
type serverConfig struct {
	Listen          string        `koanf:"listen"`
	AdminListen     string        `koanf:"admin-listen"`
	AdminPathPrefix string        `koanf:"admin-path-prefix"`
	DataDir         string        `koanf:"data-dir"`
	RetainEnded     time.Duration `koanf:"retain-ended"`
	Unmatched       string        `koanf:"unmatched"`
	LogLevel        string        `koanf:"log-level"`
	LogFormat       string        `koanf:"log-format"`

	WebhookAllow []string `koanf:"webhook-allow"`

	Memory    bool   `koanf:"memory"` // dev
	TestClock bool   `koanf:"test-clock"`
	Limits    string `koanf:"limits"`

	LimitsFiles      []string `koanf:"limits-file"` // serve
	FloodRate        int      `koanf:"flood-rate"`  // serve
	JWKSURL          string   `koanf:"jwks-url"`
	JWKSFile         string   `koanf:"jwks-file"`
	PublicKey        string   `koanf:"jwt-public-key"`
	HS256SecretFile  string   `koanf:"jwt-hs256-secret-file"`
	Issuer           string   `koanf:"jwt-issuer"`
	Audience         string   `koanf:"jwt-audience"`
	TLSCert          string   `koanf:"tls-cert"`
	TLSKey           string   `koanf:"tls-key"`
	MetricsTokenFile string   `koanf:"metrics-token-file"`
	EtcdEndpoints    []string `koanf:"etcd-endpoints"`
	EtcdListenClient string   `koanf:"etcd-listen-client"`
	EtcdListenPeer   string   `koanf:"etcd-listen-peer"`
	EtcdName         string   `koanf:"etcd-name"`
	EtcdCluster      []string `koanf:"etcd-initial-cluster"`
	EtcdCACert       string   `koanf:"etcd-cacert"`
	EtcdCert         string   `koanf:"etcd-cert"`
	EtcdKey          string   `koanf:"etcd-key"`
}

// bothSettings are those of serve and dev alike.
var bothSettings = []setting{
	{name: "listen", def: "127.0.0.1:7420", value: "ADDRESS", help: "serve the API on ADDRESS; port 0 takes a free one"},
	{name: "admin-listen", def: "127.0.0.1:7421", value: "ADDRESS", help: "serve the admin page, metrics and /admin/v1 on ADDRESS; port 0 takes a free one"},
	{name: "admin-path-prefix", value: "PATH", help: "serve the admin page under PATH, such as /holdfast; a proxy in front must keep it"},
	{name: "retain-ended", kind: length, def: "15m", value: "TIME", help: "keep ended reservations for TIME"},
	{name: "unmatched", def: "deny", words: []string{"deny", "allow"}, value: "WHAT", help: "when no limit matches: WHAT is deny or allow"},
	{name: "webhook-allow", kind: list, value: "NETWORKS", help: "let webhooks reach NETWORKS, such as 10.1.0.0/16, separated by commas, although they are private, and without TLS"},
	{name: "log-level", def: "info", words: []string{"debug", "info", "warn", "error"}, value: "LEVEL", help: "log from LEVEL on: debug, info, warn or error"},
	{name: "log-format", def: "text", words: []string{"text", "json"}, value: "FORM", help: "log as text or json"},
}

var devSettings = append([]setting{
	{name: "data-dir", def: "./holdfast-data", value: "DIR", help: "keep keys and state in DIR"},
	{name: "memory", kind: toggle, def: "false", help: "keep nothing: state is gone when it stops"},
	{name: "limits", value: "FILE", help: "start with the limits in FILE instead of the samples; FILE wins over edits at each start"},
	{name: "test-clock", kind: toggle, def: "false", help: "let POST /admin/v1/clock move the clock of windows forward"},
}, bothSettings...)

var serveSettings = append([]setting{
	{name: "data-dir", def: "./holdfast-data", value: "DIR", help: "keep state in DIR"},
	{name: "limits-file", kind: list, value: "FILES", help: "import the limits in FILES at start, when one changes and at HUP; a file wins over edits each time; FILE is of the tenant default, TENANT=FILE of another; separated by commas"},
	{name: "jwks-url", value: "URL", help: "trust tokens signed by the key set at URL"},
	{name: "jwks-file", value: "FILE", help: "trust tokens signed by the key set in FILE"},
	{name: "jwt-public-key", value: "FILE", help: "trust tokens signed by the public keys (PEM) in FILE"},
	{name: "jwt-hs256-secret-file", value: "FILE", help: "trust tokens signed with the shared secret in FILE (32 bytes or more)"},
	{name: "jwt-issuer", value: "NAME", help: "tokens must come from the issuer NAME"},
	{name: "jwt-audience", value: "NAME", help: "tokens must be for the audience NAME"},
	{name: "tls-cert", value: "FILE", help: "serve TLS with the certificate chain in FILE"},
	{name: "tls-key", value: "FILE", help: "serve TLS with the private key in FILE"},
	{name: "flood-rate", kind: count, def: "0", value: "N", help: "refuse what one principal sends above N requests a second (429 slow-down); 0: no bound"},
	{name: "metrics-token-file", value: "FILE", help: "close /metrics to all who do not show the token in FILE"},
	{name: "etcd-endpoints", kind: list, value: "URLS", help: "use the etcd cluster at URLS, separated by commas, instead of the embedded one"},
	{name: "etcd-listen-client", value: "ADDRESS", help: "embedded: let etcdctl in on ADDRESS, loopback unless certificates are given (default: nobody)"},
	{name: "etcd-listen-peer", value: "ADDRESS", help: "embedded: the other members reach this one on ADDRESS; with --etcd-initial-cluster"},
	{name: "etcd-initial-cluster", kind: list, value: "MEMBERS", help: "embedded: be one of MEMBERS, NAME=URL of each, separated by commas, at the first start"},
	{name: "etcd-name", value: "NAME", help: "embedded: be the member NAME of --etcd-initial-cluster"},
	{name: "etcd-cacert", value: "FILE", help: "trust etcd servers whose certificate is vouched for in FILE; embedded: the other members"},
	{name: "etcd-cert", value: "FILE", help: "show etcd, or the other members, the certificate in FILE"},
	{name: "etcd-key", value: "FILE", help: "the private key of --etcd-cert, in FILE"},
}, bothSettings...)

// maxRetain bounds how long ended reservations are kept.
const maxRetain = 24 * time.Hour

// validate finds everything wrong with the settings at once.
func (c *serverConfig) validate() error {
	var faults []error
	wrong := func(bad bool, format string, args ...any) {
		if bad {
			faults = append(faults, usage(format, args...))
		}
	}
	for _, door := range [][2]string{{"--listen", c.Listen}, {"--admin-listen", c.AdminListen}} {
		_, _, err := net.SplitHostPort(door[1])
		wrong(err != nil, "%s: %q is no address such as 127.0.0.1:7420", door[0], door[1])
	}
	wrong(c.DataDir == "", "--data-dir is empty")
	wrong(c.RetainEnded < time.Minute || c.RetainEnded > maxRetain, "--retain-ended must be within 1m and %s", short(maxRetain))
	wrong((c.TLSCert == "") != (c.TLSKey == ""), "--tls-cert and --tls-key go together")
	wrong((c.EtcdCert == "") != (c.EtcdKey == ""), "--etcd-cert and --etcd-key go together")
	_, err := c.webhookNetworks()
	wrong(err != nil, "--webhook-allow: %v", err)
	c.validateEtcd(wrong)
	return joinUsage(faults)
}

// joinUsage makes one failure of many.
func joinUsage(faults []error) error {
	if len(faults) == 0 {
		return nil
	}
	texts := make([]string, len(faults))
	for i, err := range faults {
		texts[i] = err.Error()
	}
	return usage("%s", strings.Join(texts, "; ")).next("all settings", "holdfast config reference")
}

// loopback reports whether nobody outside the machine can reach an address.
func loopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback()
}

// knownSettings are the names that a settings file may hold.
func knownSettings() []string {
	var names []string
	for _, s := range append(append(append([]setting{}, clientSettings...), serveSettings...), devSettings...) {
		names = append(names, s.name)
	}
	return names
}
