package auth

import "strings"

// header is what is used of a token's header.
type header struct{ alg, keyID string }

// refusedHeaders name or carry keys of the sender's choosing, or ask for processing that
// must be understood to be safe. Their presence is enough, whatever their value.
var refusedHeaders = [...]string{"crit", "jku", "x5u", "jwk"}

// readHeader reads the header of a token nothing is known about yet.
func readHeader(part string) (header, error) {
	fields, err := decodePart(part)
	if err != nil {
		return header{}, refusal("the header is " + err.Error())
	}
	for _, name := range refusedHeaders {
		if _, there := fields[name]; there {
			return header{}, refusal("the header has " + name)
		}
	}
	var h header
	switch alg, _ := fields["alg"].(string); alg {
	case algEdDSA, algES256, algRS256, algHS256:
		h.alg = alg
	default:
		return header{}, refusal("the algorithm is not accepted")
	}
	if v, there := fields["kid"]; there {
		id, _ := v.(string)
		if !validKeyID(id) {
			return header{}, refusal("the key identifier is not accepted")
		}
		h.keyID = id
	}
	if typ, there := fields["typ"]; there && !acceptedType(typ) {
		return header{}, refusal("the token is of another type than at+jwt or JWT")
	}
	return h, nil
}

// acceptedType keeps out tokens that the same issuer makes for other ends, such as logout
// and DPoP tokens (RFC 8725 section 3.11). ID tokens have no type of their own: the
// audience keeps them out.
func acceptedType(v any) bool {
	typ, _ := v.(string)
	typ = strings.ToLower(typ)
	typ = strings.TrimPrefix(typ, "application/")
	return typ == "jwt" || typ == "at+jwt"
}

// Inspect shows what a token says, without verifying anything: nothing in it may be
// believed. Numbers are json.Number.
//
// Errors: the token is not three base64url parts, within 8 KiB, of strict JSON objects.
func Inspect(token string) (header, claims map[string]any, err error) {
	encoded, err := split(token)
	if err != nil {
		return nil, nil, err
	}
	if header, err = decodePart(encoded.header); err != nil {
		return nil, nil, err
	}
	if claims, err = decodePart(encoded.claims); err != nil {
		return nil, nil, err
	}
	return header, claims, nil
}
