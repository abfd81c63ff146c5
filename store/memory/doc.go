// Package memory is a model of the keyspace: reserve.Store, reserve.Lister and reserve.Leaser
// in one process, with the semantics of etcd and none of its bytes.
//
// It knows revisions, create revisions, leases that delete their keys, nested transactions
// whose comparisons are all evaluated before any write, and the ways a call can fail. It does
// not know how a key is spelt or a value encoded: values are kept as they were given and must
// never be changed afterwards. Nothing survives the process.
//
// Where it is stricter than etcd it says so with an error that is no sentinel of package
// reserve: a value of the wrong type for its family, or one key named by two groups of a
// batch, is a fault of the program.
//
// One Store is one keyspace. Each replica sees it through a View of its own, with its own lag
// and its own faults. Mutexes are held for short sections only and everything that waits waits
// on channels and timers, so all of it works in a testing/synctest bubble.
package memory
