package auth

import (
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"time"

	"github.com/MicahParks/jwkset"
	"github.com/golang-jwt/jwt/v5"
)

// Signer makes tokens: for the development server and for the command line. Make one with
// GenerateKey or LoadSigner; the zero value has no key and must not be used. It prints as
// its key identifier, never as its key.
type Signer struct {
	private crypto.Signer
	public  key // its name is the RFC 7638 thumbprint, so that it survives being stored
	pem     []byte
	jwks    []byte
}

// GenerateKey makes a Signer with a new Ed25519 key.
func GenerateKey() (Signer, error) {
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return Signer{}, fmt.Errorf("generate a key: %w", err)
	}
	return newSigner(private)
}

// LoadSigner reads a private key from its one PEM block: PKCS #8, SEC 1 or PKCS #1; Ed25519,
// P-256, or RSA of 2,048 to 8,192 bits. What PEM wrote is read back as the same Signer.
func LoadSigner(data []byte) (Signer, error) {
	block, _ := pem.Decode(data)
	if block == nil {
		return Signer{}, errors.New("the signing key is not PEM")
	}
	var private any
	var err error
	switch block.Type {
	case "PRIVATE KEY":
		private, err = x509.ParsePKCS8PrivateKey(block.Bytes)
	case "EC PRIVATE KEY":
		private, err = x509.ParseECPrivateKey(block.Bytes)
	case "RSA PRIVATE KEY":
		private, err = x509.ParsePKCS1PrivateKey(block.Bytes)
	default:
		err = fmt.Errorf("the PEM block is %q, want PRIVATE KEY", block.Type)
	}
	if err != nil {
		return Signer{}, fmt.Errorf("the signing key: %w", err)
	}
	signer, ok := private.(crypto.Signer)
	if !ok {
		return Signer{}, fmt.Errorf("the signing key is a %T, which cannot sign", private)
	}
	return newSigner(signer)
}

func newSigner(private crypto.Signer) (Signer, error) {
	id, err := thumbprint(private.Public())
	if err != nil {
		return Signer{}, fmt.Errorf("the signing key: %w", err)
	}
	public, err := newKey(id, private.Public())
	if err != nil {
		return Signer{}, fmt.Errorf("the signing key: %w", err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return Signer{}, fmt.Errorf("the signing key: %w", err)
	}
	jwk, err := publicJWK(private.Public())
	if err != nil {
		return Signer{}, fmt.Errorf("the signing key: %w", err)
	}
	jwk.KID, jwk.ALG, jwk.USE = id, jwkset.ALG(public.alg), jwkset.UseSig
	jwks, err := json.Marshal(jwkset.JWKSMarshal{Keys: []jwkset.JWKMarshal{jwk}})
	if err != nil {
		return Signer{}, fmt.Errorf("the signing key: %w", err)
	}
	return Signer{private, public, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), jwks}, nil
}

// KeyID is the kid of the tokens it makes.
func (s Signer) KeyID() string { return s.public.id }

// String is KeyID: a Signer that slips into a log shows no secret.
func (s Signer) String() string { return s.public.id }

// GoString is KeyID, for the same reason.
func (s Signer) GoString() string { return s.public.id }

// PEM is the private key as PKCS #8. It is a secret.
func (s Signer) PEM() []byte { return append([]byte(nil), s.pem...) }

// JWKS is the public key as a JSON Web Key Set.
func (s Signer) JWKS() []byte { return append([]byte(nil), s.jwks...) }

// KeySource trusts the tokens this Signer makes, and no others.
func (s Signer) KeySource() KeySource {
	return fixedKeys{&keySet{keys: []key{s.public}}}
}

// Claims are what a minted token says.
type Claims struct {
	Issuer, Audience string // required
	Subject          string // sub, required
	SubjectKind      string // empty: left out, which means user
	Tenant           string // empty: left out, which means default
	Scope            string // words separated by spaces
	Subjects         []string
	TTL              time.Duration // cut to whole seconds, at least 1
}

// Mint makes a token issued at now that expires c.TTL later. It makes none that a Verifier
// for its issuer and audience would refuse, save for a lifetime over MaxLifetime.
//
// Errors: the first claim that breaks its rule.
func (s Signer) Mint(c Claims, now time.Time) (string, error) {
	issuedAt := now.Unix()
	seconds := int64(c.TTL / time.Second)
	if seconds < 1 {
		return "", fmt.Errorf("TTL %s: want at least 1 s", c.TTL)
	}
	claims := jwt.MapClaims{
		"iss": c.Issuer, "aud": c.Audience, "sub": c.Subject,
		"iat": issuedAt, "exp": issuedAt + seconds, "jti": rand.Text(),
	}
	for name, value := range map[string]string{"subject_kind": c.SubjectKind, "tenant": c.Tenant, "scope": c.Scope} {
		if value != "" {
			claims[name] = value
		}
	}
	if c.Subjects != nil {
		claims["subjects"] = c.Subjects
	}
	if err := mintable(c, claims, now); err != nil {
		return "", err
	}
	token := jwt.NewWithClaims(jwt.GetSigningMethod(s.public.alg), claims)
	token.Header["kid"] = s.public.id
	token.Header["typ"] = "at+jwt"
	signed, err := token.SignedString(s.private)
	if err != nil {
		return "", fmt.Errorf("sign the token: %w", err)
	}
	if len(signed) > maxTokenBytes {
		return "", errTokenSize
	}
	return signed, nil
}

// mintable judges the claims as a Verifier would after their journey through JSON.
func mintable(c Claims, claims jwt.MapClaims, now time.Time) error {
	if !exact(c.Issuer) || !exact(c.Audience) {
		return errors.New("issuer and audience are required")
	}
	data, err := json.Marshal(claims)
	if err != nil {
		return err
	}
	decoded, err := strictObject(data)
	if err != nil {
		return err
	}
	r := rules{c.Issuer, c.Audience, defaultLeeway, c.TTL}
	if _, err := r.judge(decoded, now); err != nil {
		return fmt.Errorf("the token would be refused: %w", err)
	}
	return nil
}
