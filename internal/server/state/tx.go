package state

import (
	"fmt"
	"slices"
	"time"

	"berth/internal/base/ids"
	"berth/internal/server/state/changes"
	"berth/internal/server/state/newsfeed"
	"berth/internal/server/state/radix"
)

// Stamp is when a command is applied: the Raft index and the state's own time, which never runs backwards.
type Stamp struct {
	Index uint64
	Time  time.Time
}

// Tx is a command's view of the state: it reads what it wrote, and what the commands before it wrote that become
// visible together with it.
type Tx struct {
	Snap
	stamp   Stamp
	news    newsfeed.News[News]
	evals   newsfeed.News[ids.Eval]
	changes changes.Log
	frozen  frozen
}

// show makes what was written the state of a generation.
func (gen *generation) show(x *radix.ForestTxn) {
	x.Commit(func(f radix.Forest) { gen.trees.Store(&f) })
}

// begin starts a transaction. There is one at a time.
func begin(gen *generation) *Tx {
	snap := gen.snapshot()
	snap.own, snap.unfiled = snap.trees.Txn(), unfiled{}
	return &Tx{Snap: *snap, news: gen.heard[:0]}
}

// Stamp is the command's.
func (tx *Tx) Stamp() Stamp { return tx.stamp }

// Step is one command that Batch runs.
type Step struct {
	Stamp Stamp
	Name  string // of the command
	Size  int    // bytes that it took of the log
	// Do makes the change. When it failed after it had written, the steps before it are done again without it: it must
	// do the same each time.
	Do func(tx *Tx) error
}

// Write runs fn as one step at stamp. If fn fails nothing of it remains but the stamp: the state has seen the index.
func (s *Store) Write(stamp Stamp, fn func(tx *Tx) error) error {
	return s.Batch([]Step{{Stamp: stamp, Do: fn}})[0]
}

// Batch runs steps in order, each as Write does, and commits them together, where none fails after it had written: that
// one ends what is committed together. It returns what each of them returned.
func (s *Store) Batch(steps []Step) []error {
	s.writing.Lock()
	defer s.writing.Unlock()
	gen := s.now.Load()
	errs := make([]error, len(steps))
	for done := 0; done < len(steps); {
		done += gen.commit(steps[done:], errs[done:])
	}
	return errs
}

// commit runs steps and commits them: all, or those up to one that failed after it had written.
func (gen *generation) commit(steps []Step, errs []error) (done int) {
	tx := begin(gen)
	for wrote := false; done < len(steps) && !wrote; done++ {
		if wrote, errs[done] = tx.run(steps[done]); wrote {
			tx = begin(gen)
			tx.again(steps[:done+1], errs)
		}
	}
	for _, r := range tx.unfiled { // in any order: each has its place
		rows.insert(tx.own, r)
	}
	gen.news.Add(slices.Clone(tx.news))
	gen.heard = tx.news
	gen.evals.Add(tx.evals)
	gen.show(tx.own)
	gen.changes.Add(&tx.changes)
	verifyFrozen(tx)
	return done
}

// again does steps without those that failed.
func (tx *Tx) again(steps []Step, errs []error) {
	for i, step := range steps {
		if errs[i] != nil {
			tx.stamp = step.Stamp
			tx.setApplied()
			continue
		}
		_, err := tx.run(step)
		must(err)
	}
}

// run does one step, and tells whether it failed after it had written. The next one finds the indexes as if this one
// had been committed.
func (tx *Tx) run(step Step) (wrote bool, err error) {
	tx.stamp = step.Stamp
	tx.changes.Begin(step.Stamp.Index, step.Name, step.Size)
	count := tx.own.Writes
	if err = step.Do(tx); err != nil && tx.own.Writes != count {
		return true, err
	}
	tx.setApplied()
	tx.changes.End()
	return false, err
}

// must turns what only a defect of a command or of this package can cause into a panic.
func must(err error) {
	if err != nil {
		panic(fmt.Sprintf("state: %s", err))
	}
}
