package main

import (
	"crypto/tls"
	"errors"
	"log/slog"
	"os"
	"sync"
	"time"
)

// certCheckEvery bounds how often a certificate's file is looked at, in handshakes that ask.
const certCheckEvery = time.Second

// certFile is a certificate that is read again when its file was replaced, so that renewing it
// needs no restart. Files that have become unreadable change nothing: the last good pair stays.
type certFile struct {
	cert, key string
	log       *slog.Logger

	mu   sync.Mutex
	pair *tls.Certificate
	read [2]time.Time // stamps of both files as last tried
	look time.Time    // when to look at it next
}

// serverTLS is what both doors show; nil without TLS.
func serverTLS(c *serverConfig, log *slog.Logger) (*tls.Config, error) {
	if c.TLSCert == "" {
		return nil, nil
	}
	f := &certFile{cert: c.TLSCert, key: c.TLSKey, log: log}
	if err := f.load(); err != nil {
		return nil, usage("--tls-cert and --tls-key cannot be used: %w", err)
	}
	return &tls.Config{GetCertificate: f.current, MinVersion: tls.VersionTLS12}, nil
}

// load reads both files. Stamps are taken first: what is replaced meanwhile is read again.
func (f *certFile) load() error {
	f.read = f.stamps()
	pair, err := tls.LoadX509KeyPair(f.cert, f.key)
	if err == nil {
		f.pair = &pair
	}
	return err
}

// stamps are when the two files were written; zero for one that is away.
func (f *certFile) stamps() (at [2]time.Time) {
	for i, path := range []string{f.cert, f.key} {
		if info, err := os.Stat(path); err == nil {
			at[i] = info.ModTime()
		}
	}
	return at
}

func (f *certFile) current(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if now := time.Now(); now.After(f.look) {
		f.look = now.Add(certCheckEvery)
		if f.stamps() != f.read {
			if err := f.load(); err != nil {
				f.log.Error("the new certificate cannot be used, the old one stays", "file", f.cert, "error", err)
			} else {
				f.log.Info("the certificate was read again", "file", f.cert)
			}
		}
	}
	if f.pair == nil {
		return nil, errors.New("no certificate")
	}
	return f.pair, nil
}
