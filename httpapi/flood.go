package httpapi

import (
	"net/netip"
	"sync"
	"time"

	"github.com/holdfast-dev/holdfast/api"
)

const (
	maxMetered = 16_384 // addresses or principals remembered; those above share one count
	ipv6Site   = 64     // bits of an IPv6 address that a caller cannot choose freely
)

// floodGuard is Holdfast's own protection, apart from every limit: refused tokens by address,
// requests by principal. A good token is never refused because of its neighbours' bad ones.
type floodGuard struct {
	failed, requests meter
}

func newFloodGuard(failedRate, requestRate int) *floodGuard {
	return &floodGuard{failed: meter{rate: failedRate}, requests: meter{rate: requestRate}}
}

// FailedTokens counts refused sign-ins by address, at most rate a second (0:
// DefaultFailedTokenRate), for those beside this package who verify tokens. It reports whether
// this one was one too many.
func FailedTokens(rate int) func(address string, now time.Time) bool {
	if rate == 0 {
		rate = DefaultFailedTokenRate
	}
	return newFloodGuard(rate, 0).tokenFailed
}

var errSlowDown = &wireError{
	code: api.SlowDown, retry: time.Second,
	detail: "Too many requests from here in this second; wait and send fewer.",
}

// tokenFailed counts a refused token and reports whether it was one too many.
func (g *floodGuard) tokenFailed(address string, now time.Time) bool {
	if a, err := netip.ParseAddr(address); err == nil && a.Is6() {
		site, _ := a.Prefix(ipv6Site)
		address = site.Addr().String()
	}
	return !g.failed.take(address, now)
}

// meter counts by key within the present second. Its zero rate counts nothing.
type meter struct {
	rate   int
	mu     sync.Mutex
	second int64
	counts map[string]int
}

// take counts one and reports whether it is within the rate.
func (m *meter) take(key string, now time.Time) bool {
	if m.rate == 0 {
		return true
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if second := now.Unix(); second != m.second || m.counts == nil {
		m.second = second
		m.counts = make(map[string]int)
	}
	if _, known := m.counts[key]; !known && len(m.counts) >= maxMetered {
		key = ""
	}
	m.counts[key]++
	return m.counts[key] <= m.rate
}
