// Package auth turns a bearer token into a Principal, or refuses it.
//
// It knows JSON Web Tokens: which algorithms and keys are trusted, what a token must
// claim, and how long the answer may be remembered. It refuses to know HTTP statuses,
// routes, limits in force and anything stored; whether a Principal may do a certain
// thing is asked of it by the caller, with Has and MayActFor.
//
// The order of work is the defence. Size and shape are checked before any library sees
// the token, the header before a key is chosen, the key's one algorithm before the
// signature is computed, and no claim is read before the signature is good. No library
// default is relied on: exp, for one, is optional in the library and required here.
//
// What is bounded: token 8 KiB, JSON depth 8, key set 20 keys and 256 KiB, key identifier
// 128 bytes, subject patterns 100, cache Config.CacheSize entries, one key fetch at a time.
//
// Rules: API section 2; FAULTS section 2 rows 44 and 45, section 3 rows 1 to 11.
package auth
