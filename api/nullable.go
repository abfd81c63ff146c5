package api

import "encoding/json"

// Nullable is a value for which null is an answer of its own, told apart from one that was
// left out. Given is false when it was left out; Null is true when null was written.
type Nullable[T any] struct {
	Value T
	Null  bool
	Given bool
}

// Val is a given value.
func Val[T any](v T) Nullable[T] { return Nullable[T]{Value: v, Given: true} }

// Null is a given null.
func Null[T any]() Nullable[T] { return Nullable[T]{Null: true, Given: true} }

func (Nullable[T]) nullable() {} // marks the type for Decode

// IsZero reports that the value was left out, for omitzero.
func (n Nullable[T]) IsZero() bool { return !n.Given }

// MarshalJSON writes the value, or null.
func (n Nullable[T]) MarshalJSON() ([]byte, error) {
	if n.Null || !n.Given {
		return []byte("null"), nil
	}
	return json.Marshal(n.Value)
}

// UnmarshalJSON reads a value or null; either way it was given.
func (n *Nullable[T]) UnmarshalJSON(data []byte) error {
	*n = Nullable[T]{Given: true}
	if string(data) == "null" {
		n.Null = true
		return nil
	}
	return json.Unmarshal(data, &n.Value)
}
