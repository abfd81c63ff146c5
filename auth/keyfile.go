package auth

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// fileCheckEvery bounds how often the file's time stamp is looked at.
const fileCheckEvery = time.Second

// JWKSFile trusts the keys of a JSON Web Key Set in a file of at most 256 KiB and 20 keys.
// It is read at once, and again when its time stamp, size or identity changed, looked at
// no more than once a second while tokens are verified. A file that has become unreadable
// or wrong changes nothing: the last good keys stay and the fault is logged.
//
// Errors: the file cannot be read, or holds no usable key.
func JWKSFile(path string) (KeySource, error) { return openKeyFile(path, parseJWKS) }

// PEMFile trusts the public keys of a PEM file ("PUBLIC KEY" or "RSA PUBLIC KEY"): Ed25519,
// P-256, RSA of 2,048 to 8,192 bits, at most 20. One key alone is used whatever kid a
// token names. Of several, each is known by its RFC 7638 thumbprint, which is what Signer
// puts in the tokens it makes. The file is read again as for JWKSFile.
//
// Errors: the file cannot be read, or is not as above, or holds a private key.
func PEMFile(path string) (KeySource, error) { return openKeyFile(path, parsePEM) }

// fileKeys is a source that follows a file.
type fileKeys struct {
	path  string
	parse func([]byte) (*keySet, error)
	log   *slog.Logger

	set   atomic.Pointer[keySet]
	check atomic.Pointer[time.Time] // when to look at the file next

	mu     sync.Mutex  // guards what follows; held while the file is read
	read   os.FileInfo // of the file as last read well
	failed time.Time   // time stamp of the file as last read badly, so that it is logged once
}

func openKeyFile(path string, parse func([]byte) (*keySet, error)) (KeySource, error) {
	f := &fileKeys{path: path, parse: parse, log: slog.New(slog.DiscardHandler)}
	set, info, err := f.load()
	if err != nil {
		return nil, fmt.Errorf("keys of %s: %w", path, err)
	}
	f.set.Store(set)
	f.read = info
	return f, nil
}

func (f *fileKeys) start(env sourceEnv) func() {
	f.log = env.log
	f.postpone(env.now)
	return func() {}
}

func (f *fileKeys) current(now time.Time) *keySet {
	if due := f.check.Load(); due == nil || now.Before(*due) {
		return f.set.Load()
	}
	// Whoever comes while another looks goes on with the keys there are.
	if f.mu.TryLock() {
		defer f.mu.Unlock()
		f.postpone(now)
		f.look()
	}
	return f.set.Load()
}

// refresh has nothing to add: current looks often enough, and a look costs no one else.
func (f *fileKeys) refresh(_ context.Context, now time.Time) (*keySet, error) {
	return f.current(now), nil
}

func (f *fileKeys) postpone(now time.Time) {
	due := now.Add(fileCheckEvery)
	f.check.Store(&due)
}

// look reads the file if it is not the one that was read last. f.mu is held.
func (f *fileKeys) look() {
	info, err := os.Stat(f.path)
	if err == nil && os.SameFile(info, f.read) && info.Size() == f.read.Size() && info.ModTime().Equal(f.read.ModTime()) {
		return
	}
	var set *keySet
	if err == nil {
		set, info, err = f.load()
	}
	if err != nil {
		f.complain(info, err)
		return
	}
	f.read, f.failed = info, time.Time{}
	if set.digest != f.set.Load().digest {
		f.set.Store(set)
		f.log.Info("verification keys read again", "path", f.path, "keys", len(set.keys))
	}
}

// complain logs a bad file once, and again when it has changed for another bad one.
func (f *fileKeys) complain(info os.FileInfo, err error) {
	stamp := time.Unix(0, 0)
	if info != nil {
		stamp = info.ModTime()
	}
	if !stamp.Equal(f.failed) {
		f.failed = stamp
		f.log.Warn("verification keys cannot be read again; the last good ones stay", "path", f.path, "error", err)
	}
}

// load reads and parses the file; the information is that of the bytes read, not of a
// file that took its place meanwhile.
func (f *fileKeys) load() (*keySet, os.FileInfo, error) {
	file, err := os.Open(f.path)
	if err != nil {
		return nil, nil, err
	}
	defer file.Close() //nolint:errcheck // only read from
	info, err := file.Stat()
	if err != nil {
		return nil, nil, err
	}
	data, err := readBounded(file)
	if err != nil {
		return nil, info, err
	}
	set, err := f.parse(data)
	return set, info, err
}

// readBounded reads all of r, which must end within the bound on key sets.
func readBounded(r io.Reader) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxKeySetBytes+1))
	if err != nil {
		return nil, err
	}
	if len(data) > maxKeySetBytes {
		return nil, fmt.Errorf("over %d KiB", maxKeySetBytes>>10)
	}
	return data, nil
}

func parsePEM(data []byte) (*keySet, error) {
	set := &keySet{digest: sha256.Sum256(data)}
	for rest := bytes.TrimSpace(data); len(rest) > 0; rest = bytes.TrimSpace(rest) {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			return nil, errors.New("not PEM, or something else beside the PEM blocks")
		}
		k, err := parsePEMBlock(block)
		if err != nil {
			return nil, err
		}
		set.keys = append(set.keys, k)
	}
	switch n := len(set.keys); {
	case n == 0 || n > maxKeys:
		return nil, fmt.Errorf("%d public keys, want 1 to %d", n, maxKeys)
	case n == 1:
		set.keys[0].id = "" // alone, it needs no name
	}
	return set, set.unambiguous()
}

func parsePEMBlock(block *pem.Block) (key, error) {
	var public any
	var err error
	switch block.Type {
	case "PUBLIC KEY":
		public, err = x509.ParsePKIXPublicKey(block.Bytes)
	case "RSA PUBLIC KEY":
		public, err = x509.ParsePKCS1PublicKey(block.Bytes)
	case "PRIVATE KEY", "RSA PRIVATE KEY", "EC PRIVATE KEY":
		err = errors.New("this is a private key; give the public one")
	default:
		err = fmt.Errorf("a PEM block is %q, want PUBLIC KEY", block.Type)
	}
	if err != nil {
		return key{}, err
	}
	id, err := thumbprint(public)
	if err != nil {
		return key{}, err
	}
	return newKey(id, public)
}
