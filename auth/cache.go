package auth

import (
	"crypto/sha256"
	"sync"
	"time"
)

const (
	cacheShards = 16
	// shardedFrom is the size from which the cache is split; below it a single part keeps
	// the bound exact.
	shardedFrom = 1024
	// evictionSample is how many entries are looked at to make room for one.
	evictionSample = 8
)

// tokenHash stands for a token: the cache never holds the token itself.
type tokenHash = [sha256.Size]byte

// verified is a token that was found good. It is immutable.
type verified struct {
	principal Principal
	keys      *keySet // that it was verified with
}

// cache remembers verified tokens, at most as many as it was made for. It makes room by
// dropping, of a few entries at hand, the one that expires first: no order is kept, so a
// hit writes nothing.
type cache struct {
	shards   []shard
	perShard int
}

type shard struct {
	mu      sync.RWMutex
	entries map[tokenHash]*verified
	_       [32]byte // keeps neighbours off one cache line
}

func newCache(size int) *cache {
	n := 1
	if size >= shardedFrom {
		n = cacheShards
	}
	c := &cache{shards: make([]shard, n), perShard: size / n}
	for i := range c.shards {
		c.shards[i].entries = map[tokenHash]*verified{}
	}
	return c
}

func (c *cache) shard(h tokenHash) *shard { return &c.shards[int(h[0])%len(c.shards)] }

// get is nil for a token that is not remembered.
func (c *cache) get(h tokenHash) *verified {
	s := c.shard(h)
	s.mu.RLock()
	v := s.entries[h]
	s.mu.RUnlock()
	return v
}

func (c *cache) put(h tokenHash, v *verified) {
	s := c.shard(h)
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, there := s.entries[h]; !there && len(s.entries) >= c.perShard {
		s.evict()
	}
	s.entries[h] = v
}

// drop forgets v unless another has taken its place.
func (c *cache) drop(h tokenHash, v *verified) {
	s := c.shard(h)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.entries[h] == v {
		delete(s.entries, h)
	}
}

func (s *shard) evict() {
	var victim tokenHash
	var earliest time.Time
	seen := 0
	for h, v := range s.entries {
		if seen == 0 || v.principal.ExpiresAt.Before(earliest) {
			victim, earliest = h, v.principal.ExpiresAt
		}
		if seen++; seen == evictionSample {
			break
		}
	}
	delete(s.entries, victim)
}
