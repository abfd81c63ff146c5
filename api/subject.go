package api

// Subject is who is counted: a kind and an id, compared byte for byte.
type Subject struct {
	Kind string `json:"kind" rule:"required"` // [a-z][a-z0-9_-]{0,31}
	ID   string `json:"id" rule:"required"`   // 1..255 bytes
}

// Owner says who works under a hold: told by the caller, shown to people, trusted by nobody.
type Owner struct {
	Name string `json:"name,omitempty"` // up to 128 bytes
	Host string `json:"host,omitempty"` // up to 128 bytes
	PID  int64  `json:"pid,omitempty" rule:"min=0,max=4294967295"`
	URL  string `json:"url,omitempty"` // up to 1,024 bytes
}

// Page is one page of a list. NextCursor is nil on the last one.
type Page[T any] struct {
	Data       []T     `json:"data"`
	NextCursor *string `json:"nextCursor"`
}
