package state

import (
	"bufio"
	"errors"
	"fmt"
	"io"

	"berth/internal/server/state/records"
	"berth/internal/wire"
)

// tables lists every table in the order in which a snapshot holds them. A new table is added at the end.
var tables = []tableDef{
	rows, metas, namespaces, nodes, jobs, jobVersions, submissions, evals, allocs, volumes, claims, attachments,
	volumeSnapshots, plugins, inventories, inventoryHeads, secrets, marks, claimProofs, signingKeys,
	tombstones, provenEnds, shortages, recoveries, evidences, sessions, authorities, admissions, joined,
	dataKeys, aclPolicies, aclRoles, aclTokens, aclBootstraps, autopilots, nodePools, variables,
	deployments, scalings, consulTokens,
}

// snapshotFormat is the number of the stream's form.
const snapshotFormat = 1

// Persist writes the snapshot as a stream of records, each with its length before it: equal states give equal bytes.
func (s *Snap) Persist(w io.Writer) error {
	b := bufio.NewWriterSize(w, 1<<16)
	if err := records.Write(b, records.Record{Format: snapshotFormat}); err != nil {
		return err
	}
	count := uint64(0)
	for _, t := range tables {
		for o := range t.each(s) {
			data, err := wire.Encode(o)
			if err != nil {
				return fmt.Errorf("encode an object of table %s: %w", t.title(), err)
			}
			if err := records.Write(b, records.Record{Table: t.title(), Object: data}); err != nil {
				return err
			}
			count++
		}
	}
	if err := records.Write(b, records.Record{Count: count + 1}); err != nil {
		return err
	}
	return b.Flush()
}

// Restore replaces the whole state by a snapshot's. On an error the present state stays.
func (s *Store) Restore(r io.Reader) error {
	gen := newGeneration()
	if err := load(gen, bufio.NewReaderSize(r, 1<<16)); err != nil {
		return fmt.Errorf("restore the state from a snapshot: %w", err)
	}
	s.writing.Lock()
	defer s.writing.Unlock()
	old := s.now.Swap(gen)
	close(old.abandoned)
	old.changes.Close()
	return nil
}

func load(gen *generation, r io.Reader) error {
	head, err := records.Read(r)
	if err != nil {
		return err
	}
	if head.Format != snapshotFormat {
		return fmt.Errorf("its format is %d, this program reads %d", head.Format, snapshotFormat)
	}
	byName := map[string]tableDef{}
	for _, t := range tables {
		byName[t.title()] = t
	}
	read := begin(gen).own
	for count := uint64(0); ; count++ {
		rec, err := records.Read(r)
		switch {
		case errors.Is(err, io.EOF):
			return fmt.Errorf("it is cut off after %d objects", count)
		case err != nil:
			return err
		case rec.Count > 0:
			if rec.Count != count+1 {
				return fmt.Errorf("it holds %d objects and promises %d", count, rec.Count-1)
			}
			gen.show(read)
			tx := begin(gen)
			identify(&tx.Snap)
			for n := range tx.Nodes(nil, "") {
				regroup(&tx.Snap, n, 1)
			}
			for a := range tx.Allocs(nil, "") {
				recount(&tx.Snap, nil, a)
			}
			gen.show(tx.own)
			return nil
		}
		t := byName[rec.Table]
		if t == nil {
			return fmt.Errorf("table %q is not known to this program", rec.Table)
		}
		if err := t.restore(read, rec.Object); err != nil {
			return err
		}
	}
}
