package localstate

import (
	"berth/internal/base/ids"
	"berth/internal/model/lineage"
	"berth/internal/port/kv"
)

const bucketMarks = "client-marks"

// Mark says that a run of the agent has begun an alloc and had not yet lived on for long enough after that. One that is
// left when the agent starts may be due to a crash of the run before.
type Mark struct {
	// Crashes is how many runs of the agent in a row have ended like that, if the one that wrote this does.
	Crashes int
	// Alone: no other alloc was marked at the same time.
	Alone bool `cbor:",omitempty"`
	// By is the version of the agent and the boot of the machine, as suspects.Config has it; what others died of says
	// nothing.
	By string
	// Run is the run of the agent that has begun it.
	Run string `cbor:",omitempty"`
}

// PutMarks remembers marks, all in one step.
func (s *Store) PutMarks(marks map[ids.Alloc]Mark) error {
	return s.KV.Update(func(tx *kv.Tx) error { return putMarks(tx, marks) })
}

// PutBegun is PutSeen with the marks of the allocs that are begun with it.
func (s *Store) PutBegun(seen lineage.Point, changed []*Alloc, marks map[ids.Alloc]Mark) error {
	return s.KV.Update(func(tx *kv.Tx) error {
		if err := putMarks(tx, marks); err != nil {
			return err
		}
		return putSeen(tx, seen, changed)
	})
}

func putMarks(tx *kv.Tx, marks map[ids.Alloc]Mark) error {
	for id, m := range marks {
		if err := tx.Put(bucketMarks, string(id), m); err != nil {
			return err
		}
	}
	return nil
}

// DropMarks forgets marks, all in one step.
func (s *Store) DropMarks(all []ids.Alloc) error {
	return s.KV.Update(func(tx *kv.Tx) error {
		for _, id := range all {
			if err := tx.Delete(bucketMarks, string(id)); err != nil {
				return err
			}
		}
		return nil
	})
}

// loadMarks reads what earlier runs of the agent have left. One that cannot be read accuses nobody: it is passed over,
// and the next mark of the alloc takes its place.
func loadMarks(tx *kv.Tx) (map[ids.Alloc]Mark, error) {
	out := map[ids.Alloc]Mark{}
	err := kv.All(tx, bucketMarks, func(key string, m *Mark) error {
		out[ids.Alloc(key)] = *m
		return nil
	}, func(string, error) error { return nil })
	return out, err
}
