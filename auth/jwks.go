package auth

import (
	"crypto"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/MicahParks/jwkset"
)

// parseJWKS reads a JSON Web Key Set (RFC 7517). Keys that cannot serve are passed over, as
// the RFC asks: of other types, for encryption, for other algorithms, too weak, shared
// secrets, and, where there is more than one, without a usable identifier. At least one
// must remain.
func parseJWKS(data []byte) (*keySet, error) {
	document, err := strictObject(data)
	if err != nil {
		return nil, fmt.Errorf("the key set is %w", err)
	}
	list, ok := document["keys"].([]any)
	if !ok {
		return nil, errors.New("the key set has no list named keys")
	}
	if len(list) > maxKeys {
		return nil, fmt.Errorf("the key set has %d keys, want at most %d", len(list), maxKeys)
	}
	set := &keySet{digest: sha256.Sum256(data)}
	var passedOver []error
	for _, entry := range list {
		k, err := parseJWK(entry)
		if err != nil {
			passedOver = append(passedOver, err)
			continue
		}
		set.keys = append(set.keys, k)
	}
	if len(set.keys) > 1 {
		set.keys = slices.DeleteFunc(set.keys, func(k key) bool { return k.id == "" })
	}
	if len(set.keys) == 0 {
		return nil, fmt.Errorf("the key set has no usable key that a token could name: %w", errors.Join(passedOver...))
	}
	return set, set.unambiguous()
}

// unambiguous refuses a set in which a token could mean either of two keys.
func (s *keySet) unambiguous() error {
	seen := map[[2]string]bool{}
	for _, k := range s.keys {
		name := [2]string{k.id, k.alg}
		if seen[name] {
			return errors.New("two keys have the same identifier and algorithm")
		}
		seen[name] = true
	}
	return nil
}

// parseJWK takes only what describes a public key: certificates and addresses of
// certificates in it are never looked at, let alone fetched.
func parseJWK(entry any) (key, error) {
	fields, ok := entry.(map[string]any)
	if !ok {
		return key{}, errors.New("a key is not an object")
	}
	text := func(name string) string { s, _ := fields[name].(string); return s }
	if use, there := fields["use"]; there && use != "sig" {
		return key{}, errors.New("a key is not for signatures")
	}
	if ops, there := fields["key_ops"].([]any); there && !slices.Contains(ops, any("verify")) {
		return key{}, errors.New("a key is not for verifying")
	}
	id := text("kid")
	if _, there := fields["kid"]; there && !validKeyID(id) {
		return key{}, errors.New("a key has an identifier no token may name")
	}
	jwk, err := jwkset.NewJWKFromMarshal(jwkset.JWKMarshal{
		KTY: jwkset.KTY(text("kty")), CRV: jwkset.CRV(text("crv")),
		X: text("x"), Y: text("y"), N: text("n"), E: text("e"),
	}, jwkset.JWKMarshalOptions{}, jwkset.JWKValidateOptions{})
	if err != nil {
		return key{}, err
	}
	k, err := newKey(id, jwk.Key())
	if err != nil {
		return key{}, err
	}
	if alg, there := fields["alg"]; there && alg != k.alg {
		return key{}, fmt.Errorf("a key of type %s is for another algorithm", k.alg)
	}
	return k, nil
}

// publicJWK is the JSON form of a public key, without a name.
func publicJWK(public crypto.PublicKey) (jwkset.JWKMarshal, error) {
	jwk, err := jwkset.NewJWKFromKey(public, jwkset.JWKOptions{})
	if err != nil {
		return jwkset.JWKMarshal{}, err
	}
	return jwk.Marshal(), nil
}

// thumbprint is the RFC 7638 name of a public key: the hash of its required members in
// alphabetical order, which is the order in which a map is encoded.
func thumbprint(public crypto.PublicKey) (string, error) {
	jwk, err := publicJWK(public)
	if err != nil {
		return "", err
	}
	members := map[string]string{"kty": jwk.KTY.String()}
	for name, value := range map[string]string{
		"crv": jwk.CRV.String(), "x": jwk.X, "y": jwk.Y, "n": jwk.N, "e": jwk.E,
	} {
		if value != "" {
			members[name] = value
		}
	}
	data, err := json.Marshal(members)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(data)
	return base64.RawURLEncoding.EncodeToString(sum[:]), nil
}
