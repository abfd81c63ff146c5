package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
)

// The files of keys certificates.
const (
	caName      = "ca.pem"   // who vouches
	certName    = "cert.pem" // for the hosts
	certKeyName = "cert-key.pem"
)

// Bounds of a certificate.
const (
	certLasts    = 365 * 24 * time.Hour
	maxCertLasts = 10 * 365 * 24 * time.Hour
	certBefore   = time.Hour // clocks of the members may differ
	serialBits   = 127
)

func (a *app) certificatesCommand() *cobra.Command {
	var out string
	var hosts []string
	var lasts time.Duration
	var keep bool
	cmd := &cobra.Command{
		Use: "certificates", Short: "Make the certificates that etcd's members and the servers show each other",
		Long: "Make one certificate for all hosts of a cluster, good for servers and clients, and the authority that\n" +
			"vouches for it: ca.pem, cert.pem, cert-key.pem. The authority's key is not kept, so nobody can make a\n" +
			"second certificate that the cluster would trust; to renew, make all three anew. A cluster that has an\n" +
			"authority of its own should use that.",
		Example: "  holdfast keys certificates --out certs --host etcd-1,etcd-2,etcd-3,127.0.0.1",
		Args:    args(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			return a.makeCertificates(out, hosts, lasts, keep)
		},
	}
	cmd.Flags().StringVar(&out, "out", "certs", "write them to the folder `DIR`; those that are there are not replaced")
	cmd.Flags().StringSliceVar(&hosts, "host", nil, "for `HOSTS`, names or addresses, separated by commas")
	cmd.Flags().DurationVar(&lasts, "for", certLasts, "they last `TIME`")
	cmd.Flags().BoolVar(&keep, "keep", false, "those that are there are no fault: they stay")
	return cmd
}

func (a *app) makeCertificates(dir string, hosts []string, lasts time.Duration, keep bool) error {
	if len(hosts) == 0 {
		return usage("certificates are for somebody").next("name them", "--host etcd-1,etcd-2,etcd-3")
	}
	if lasts < time.Minute || lasts > maxCertLasts {
		return usage("--for must be within 1m and %s", short(maxCertLasts))
	}
	if _, err := os.Stat(filepath.Join(dir, certKeyName)); err == nil {
		if keep {
			return nil
		}
		return fail(exitFailed, "%s is there already", filepath.Join(dir, certKeyName)).next("name another folder", "--out DIR")
	}
	files, err := certificates(hosts, a.now(), lasts)
	if err == nil {
		err = os.MkdirAll(dir, 0o700)
	}
	for _, name := range []string{caName, certName, certKeyName} { // the key last: it says that all are there
		if err == nil {
			err = writeFile(filepath.Join(dir, name), files[name])
		}
	}
	if err != nil {
		return fail(exitFailed, "the certificates cannot be made: %w", err).next("name another folder", "--out DIR")
	}
	a.say("%s, %s and %s are in %s, for %s", caName, certName, certKeyName, dir, short(lasts))
	return nil
}

// certificates makes an authority and one certificate it vouches for; its own key is forgotten.
func certificates(hosts []string, now time.Time, lasts time.Duration) (map[string][]byte, error) {
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := func(name string) *x509.Certificate {
		serial, _ := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), serialBits)) // never fails: rand.Reader ends the process instead
		return &x509.Certificate{
			SerialNumber: serial, Subject: pkix.Name{CommonName: name},
			NotBefore: now.Add(-certBefore), NotAfter: now.Add(lasts), BasicConstraintsValid: true,
		}
	}
	ca := template("holdfast cluster authority")
	ca.IsCA, ca.KeyUsage = true, x509.KeyUsageCertSign
	cert := template("holdfast cluster")
	cert.KeyUsage = x509.KeyUsageDigitalSignature
	cert.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			cert.IPAddresses = append(cert.IPAddresses, ip)
		} else {
			cert.DNSNames = append(cert.DNSNames, host)
		}
	}
	caDER, err1 := x509.CreateCertificate(rand.Reader, ca, ca, caKey.Public(), caKey)
	certDER, err2 := x509.CreateCertificate(rand.Reader, cert, ca, key.Public(), caKey)
	keyDER, err3 := x509.MarshalPKCS8PrivateKey(key)
	return map[string][]byte{
		caName:      pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: caDER}),
		certName:    pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certDER}),
		certKeyName: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}),
	}, errors.Join(err1, err2, err3)
}
