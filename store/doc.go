// Package store is the keyspace in etcd: the names of keys, the bytes of values, one
// consistent read, one guarded write, and the watch. It satisfies reserve.Store and
// reserve.Lister.
//
// It knows etcd, DESIGN.md section 3 and nothing of what a reservation may do: it never
// decides. keys.go is the only place that spells a key, the codec files are the only ones
// that know a byte. It grants no lease (package lease does), it retries no write, and it
// keeps no copy of what it read, except the names of tenants.
//
// # A batch
//
// Apply sends one transaction, however many groups it carries. Levels that would carry
// nothing are left out:
//
//	if   the marker's create revision is as told                 (Batch.Marker ≠ 0)
//	then ┌ if   the catalogue's mod revision is as decided under (one a tenant and revision)
//	     │ then ┌ if guards then writes else reads               (one a group)
//	     │      └ …
//	     └ if guards then writes else reads                      (a group under AnyCatalog)
//
// All comparisons are evaluated before any write, so no two groups may name one key.
//
// # Errors
//
// Every answer of etcd is put into a class by one table (errors.go). The line that
// matters is the one between "nothing happened" and "it may have happened": only the codes
// named in DESIGN.md section 4 are on the near side of it.
package store
