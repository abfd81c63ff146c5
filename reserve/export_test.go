package reserve

// Derive shows tests which id belongs to an Idempotency-Key.
func Derive(tenant, principal, route, key string) ID { return derive(tenant, principal, route, key) }
