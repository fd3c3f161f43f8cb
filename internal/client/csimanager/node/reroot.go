package node

import (
	"berth/internal/client/csimanager/entry"
	"berth/internal/port/hostfs"
	"berth/internal/port/kv"
)

// Reroot has the paths in all records follow a data directory that was moved while nothing was mounted beneath it. A
// record that cannot be read stays as it is.
func Reroot(tx *kv.Tx, from, to string) error {
	var moved []*entry.Entry
	err := kv.All(tx, bucket,
		func(_ string, e *entry.Entry) error {
			e.Reroot(func(path string) string { return hostfs.Reroot(path, from, to) })
			moved = append(moved, e)
			return nil
		},
		func(string, error) error { return nil }) // load says it
	if err != nil {
		return err
	}
	for _, e := range moved {
		if err := tx.Put(bucket, entry.StoreKey(e.Key), e); err != nil {
			return err
		}
	}
	return nil
}
