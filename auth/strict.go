package auth

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
	"unicode/utf8"
)

const (
	maxTokenBytes = 8 << 10
	maxJSONDepth  = 8
	maxKeyIDBytes = 128
)

// The reasons below are shown to callers and quote nothing that was sent.
var (
	errTokenSize   = errors.New("the token is empty or over 8 KiB")
	errTokenShape  = errors.New("the token is not three base64url parts")
	errNotUTF8     = errors.New("not valid UTF-8")
	errNotJSON     = errors.New("not valid JSON")
	errNotObject   = errors.New("not a JSON object")
	errTooDeep     = errors.New("nested more than 8 deep")
	errNameTwice   = errors.New("a name appears twice")
	errNameUnclear = errors.New("a name has characters that cannot be read")
)

// parts is a token taken apart, still encoded.
type parts struct{ header, claims, signature string }

// split takes a token apart. The alphabet is checked here because the decoder of the
// standard library skips line breaks, so that many texts would be the same token.
func split(token string) (parts, error) {
	if token == "" || len(token) > maxTokenBytes {
		return parts{}, errTokenSize
	}
	if strings.Count(token, ".") != 2 {
		return parts{}, errTokenShape
	}
	header, rest, _ := strings.Cut(token, ".")
	claims, signature, _ := strings.Cut(rest, ".")
	for _, part := range [...]string{header, claims, signature} {
		if part == "" || !onlyBytes(part, isBase64URL) {
			return parts{}, errTokenShape
		}
	}
	return parts{header, claims, signature}, nil
}

// decodePart is the JSON object behind one part of a token.
func decodePart(part string) (map[string]any, error) {
	data, err := base64.RawURLEncoding.Strict().DecodeString(part)
	if err != nil {
		return nil, errTokenShape
	}
	return strictObject(data)
}

// strictObject reads one JSON object and nothing else: valid UTF-8, each name once in its
// object, names in their exact case, nothing after it, at most 8 deep. Numbers stay as
// they were written (json.Number).
//
// The standard decoder alone takes "SUB" for "sub", the last of two names and any broken
// byte for U+FFFD (FAULTS section 3 rows 10 and 12).
func strictObject(data []byte) (map[string]any, error) {
	if !utf8.Valid(data) {
		return nil, errNotUTF8
	}
	if !json.Valid(data) {
		return nil, errNotJSON
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	v, err := readValue(dec, 0)
	if err != nil {
		return nil, err
	}
	object, ok := v.(map[string]any)
	if !ok {
		return nil, errNotObject
	}
	return object, nil
}

// readValue reads the next value; depth is how many objects and arrays are open around it.
func readValue(dec *json.Decoder, depth int) (any, error) {
	token, err := dec.Token()
	if err != nil {
		return nil, errNotJSON
	}
	delim, nested := token.(json.Delim)
	if !nested {
		return token, nil
	}
	if depth == maxJSONDepth {
		return nil, errTooDeep
	}
	var v any
	if delim == '{' {
		v, err = readObject(dec, depth+1)
	} else {
		v, err = readArray(dec, depth+1)
	}
	if err != nil {
		return nil, err
	}
	if _, err := dec.Token(); err != nil { // the closing bracket
		return nil, errNotJSON
	}
	return v, nil
}

func readObject(dec *json.Decoder, depth int) (map[string]any, error) {
	object := map[string]any{}
	for dec.More() {
		token, err := dec.Token()
		if err != nil {
			return nil, errNotJSON
		}
		name, ok := token.(string)
		if !ok {
			return nil, errNotJSON
		}
		if strings.ContainsRune(name, utf8.RuneError) {
			return nil, errNameUnclear
		}
		if _, twice := object[name]; twice {
			return nil, errNameTwice
		}
		if object[name], err = readValue(dec, depth); err != nil {
			return nil, err
		}
	}
	return object, nil
}

func readArray(dec *json.Decoder, depth int) ([]any, error) {
	array := []any{}
	for dec.More() {
		v, err := readValue(dec, depth)
		if err != nil {
			return nil, err
		}
		array = append(array, v)
	}
	return array, nil
}
