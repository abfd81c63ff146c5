package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"
)

// peerConnections is how many connections a front keeps to its store.
const peerConnections = 64

// memorySemaphores are the ceiling: a map under a mutex, lost with the process.
type memorySemaphores struct {
	mu   sync.Mutex
	held map[string]map[string]time.Time
}

func openMemory(context.Context, string) (semaphores, error) {
	return &memorySemaphores{held: map[string]map[string]time.Time{}}, nil
}

func (m *memorySemaphores) acquire(_ context.Context, key string, ttl time.Duration) (string, error) {
	now, slot := time.Now(), rand.Text()
	m.mu.Lock()
	defer m.mu.Unlock()
	held := m.held[key]
	if held == nil {
		held = map[string]time.Time{}
		m.held[key] = held
	}
	for s, until := range held {
		if until.Before(now) {
			delete(held, s)
		}
	}
	if len(held) >= semaphore {
		return "", nil
	}
	held[slot] = now.Add(ttl)
	return slot, nil
}

func (m *memorySemaphores) release(_ context.Context, key, slot string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.held[key], slot)
	return nil
}

func (m *memorySemaphores) close() {}

// redisSemaphores are the usual sorted set of holders by expiry, changed by a script.
type redisSemaphores struct{ client *redis.Client }

var redisAcquire = redis.NewScript(`
local now = redis.call('TIME')
local ms = now[1] * 1000 + math.floor(now[2] / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', ms)
if redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[1]) then
  return 0
end
redis.call('ZADD', KEYS[1], ms + ARGV[2], ARGV[3])
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 1`)

func openRedis(ctx context.Context, address string) (semaphores, error) {
	redis.SetLogger(quiet{})
	c := redis.NewClient(&redis.Options{Addr: address, PoolSize: peerConnections, MinIdleConns: peerConnections})
	return &redisSemaphores{c}, c.Ping(ctx).Err()
}

func (r *redisSemaphores) acquire(ctx context.Context, key string, ttl time.Duration) (string, error) {
	slot := rand.Text()
	got, err := redisAcquire.Run(ctx, r.client, []string{"sem:" + key}, semaphore, ttl.Milliseconds(), slot).Int()
	if err != nil || got == 0 {
		return "", err
	}
	return slot, nil
}

func (r *redisSemaphores) release(ctx context.Context, key, slot string) error {
	return r.client.ZRem(ctx, "sem:"+key, slot).Err()
}

func (r *redisSemaphores) close() { _ = r.client.Close() }

// postgresSemaphores are a table of slots, taken by a row lock that nobody waits for. One
// statement an act, committed by itself: the form with a transaction of several is slower.
type postgresSemaphores struct{ pool *pgxpool.Pool }

// postgresKeys is how many keys have their slots in the table.
const postgresKeys = 64

var postgresSchema = []string{
	`create table slots (
  key text not null, n int not null, holder text, free_at timestamptz not null default 'epoch', primary key (key, n)
) with (fillfactor = 50)`,
	fmt.Sprintf(`insert into slots (key, n) select 's' || k, n from generate_series(0, %d) k, generate_series(0, %d) n`, postgresKeys-1, semaphore-1),
	`vacuum analyze slots`,
}

const postgresAcquire = `
update slots set holder = $2, free_at = now() + $3 * interval '1 millisecond'
where (key, n) = (select key, n from slots where key = $1 and free_at <= now() limit 1 for update skip locked)
returning n`

const postgresRelease = `update slots set holder = null, free_at = 'epoch' where key = $1 and n = $2 and holder = $3`

func openPostgres(ctx context.Context, address string) (semaphores, error) {
	cfg, err := pgxpool.ParseConfig(address)
	if err != nil {
		return nil, err
	}
	cfg.MaxConns, cfg.MinConns = peerConnections, peerConnections
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, err
	}
	return &postgresSemaphores{pool}, nil
}

func (p *postgresSemaphores) acquire(ctx context.Context, key string, ttl time.Duration) (string, error) {
	holder, n := rand.Text(), 0
	err := p.pool.QueryRow(ctx, postgresAcquire, key, holder, ttl.Milliseconds()).Scan(&n)
	if errors.Is(err, pgx.ErrNoRows) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	return strconv.Itoa(n) + "-" + holder, nil
}

func (p *postgresSemaphores) release(ctx context.Context, key, slot string) error {
	n, holder, err := postgresSlot(slot)
	if err != nil {
		return err
	}
	_, err = p.pool.Exec(ctx, postgresRelease, key, n, holder)
	return err
}

func (p *postgresSemaphores) close() { p.pool.Close() }

func postgresSlot(slot string) (n int, holder string, err error) {
	number, holder, _ := strings.Cut(slot, "-")
	n, err = strconv.Atoi(number)
	return n, holder, err
}
