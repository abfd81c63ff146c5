package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/auth"
)

func (a *app) keysCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "keys",
		Short: "Make a key that signs tokens, and the public keys that verify them",
		Example: "  holdfast keys generate --out signing.pem\n" +
			"  holdfast keys jwks --key signing.pem > jwks.json\n" +
			"  holdfast serve --jwks-file jwks.json --jwt-issuer me --jwt-audience holdfast",
		Args: cobra.ArbitraryArgs,
		RunE: noCommand,
	}
	var out, key, public string
	var keep bool
	generate := &cobra.Command{
		Use: "generate", Short: "Make an Ed25519 private key, in a file that its owner alone can read",
		Example: "  holdfast keys generate --out signing.pem\n" +
			"  holdfast keys generate --out signing.pem --jwks jwks.json --keep   # at each start of a container",
		Args: args(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error { return a.generateKey(out, public, keep) },
	}
	generate.Flags().StringVar(&out, "out", "holdfast-key.pem", "write it to `FILE`; one that is there is not replaced")
	generate.Flags().StringVar(&public, "jwks", "", "write the public key to `FILE` too, as a JSON Web Key Set")
	generate.Flags().BoolVar(&keep, "keep", false, "one that is there is no fault: it stays")
	jwks := &cobra.Command{
		Use: "jwks", Short: "Print the public key of a private one, as a JSON Web Key Set",
		Example: "  holdfast keys jwks --key signing.pem > jwks.json",
		Args:    args(cobra.NoArgs),
		RunE:    func(*cobra.Command, []string) error { return a.printKeySet(key) },
	}
	jwks.Flags().StringVar(&key, "key", "", "the private key in `FILE` (default: the context's)")
	cmd.AddCommand(generate, jwks, a.certificatesCommand())
	return cmd
}

// generateKey makes a key unless keep finds one, and writes its public part where it was told.
func (a *app) generateKey(path, public string, keep bool) error {
	signer, err := a.signingKey(path, keep)
	if err == nil && public != "" {
		if err = writeFile(public, signer.JWKS()); err != nil {
			err = fail(exitFailed, "the public key cannot be written: %w", err).next("name another file", "--jwks FILE")
		}
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(a.stdout, signer.KeyID())
	return err
}

func (a *app) signingKey(path string, keep bool) (auth.Signer, error) {
	if _, err := os.Stat(path); err == nil && keep {
		return loadKey(path)
	}
	signer, err := auth.GenerateKey()
	if err != nil {
		return signer, fail(exitFailed, "no key: %w", err)
	}
	if err := createFile(path, signer.PEM()); err != nil {
		if errors.Is(err, fs.ErrExist) {
			return signer, fail(exitFailed, "%s is there already", path).next("name another file", "holdfast keys generate --out FILE")
		}
		return signer, fail(exitFailed, "the key cannot be written: %w", err).next("name another file", "holdfast keys generate --out FILE")
	}
	a.say("the private key is in %s; the public one: holdfast keys jwks --key %s", path, path)
	return signer, nil
}

// createFile writes a new file that its owner alone can read; one that is there stays.
func createFile(path string, data []byte) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	return errors.Join(err, file.Sync(), file.Close())
}

func (a *app) printKeySet(path string) error {
	if path == "" {
		saved, err := a.savedContext()
		if err != nil {
			return err
		}
		if saved == nil || saved.KeyFile == "" {
			return usage("there is no key").next("name one", "--key FILE").next("make one", "holdfast keys generate")
		}
		path = saved.KeyFile
	}
	signer, err := loadKey(path)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(a.stdout, string(signer.JWKS()))
	return err
}
