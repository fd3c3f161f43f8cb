package state

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"berth/internal/wire"
)

// tables lists every table in the order in which a snapshot holds them. A new table is added at the end.
var tables = []tableDef{
	rows, metas, namespaces, nodes, jobs, jobVersions, submissions, evals, allocs, volumes, claims, attachments,
	volumeSnapshots, plugins, inventories, inventoryHeads, secrets, marks, claimProofs, signingKeys,
	tombstones, provenEnds, shortages, recoveries, evidences, sessions, authorities, admissions, joined,
	dataKeys, aclPolicies, aclRoles, aclTokens, aclBootstraps, autopilots, nodePools,
	deployments,
}

// snapshotFormat is the number of the stream's form.
const snapshotFormat = 1

// maxRecord bounds one record of a snapshot, in bytes.
const maxRecord = 64 << 20

// record is one object of a snapshot. The first record has the format, the last the count of those between.
type record struct {
	Format uint64 `cbor:"f,omitempty"`
	Table  string `cbor:"t,omitempty"`
	Object []byte `cbor:"o,omitempty"`
	Count  uint64 `cbor:"n,omitempty"`
}

// Persist writes the snapshot as a stream of records, each with its length before it: equal states give equal bytes.
func (s *Snap) Persist(w io.Writer) error {
	b := bufio.NewWriterSize(w, 1<<16)
	if err := writeRecord(b, record{Format: snapshotFormat}); err != nil {
		return err
	}
	count := uint64(0)
	for _, t := range tables {
		for o := range t.each(s) {
			data, err := wire.Encode(o)
			if err != nil {
				return fmt.Errorf("encode an object of table %s: %w", t.title(), err)
			}
			if err := writeRecord(b, record{Table: t.title(), Object: data}); err != nil {
				return err
			}
			count++
		}
	}
	if err := writeRecord(b, record{Count: count + 1}); err != nil {
		return err
	}
	return b.Flush()
}

func writeRecord(w io.Writer, r record) error {
	data, err := wire.Encode(r)
	if err != nil {
		return err
	}
	var size [4]byte
	binary.BigEndian.PutUint32(size[:], uint32(len(data)))
	if _, err := w.Write(size[:]); err != nil {
		return err
	}
	_, err = w.Write(data)
	return err
}

func readRecord(r io.Reader) (record, error) {
	var size [4]byte
	var out record
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return out, err
	}
	n := binary.BigEndian.Uint32(size[:])
	if n > maxRecord {
		return out, fmt.Errorf("a record of %d bytes; the bound is %d", n, maxRecord)
	}
	data := make([]byte, n)
	if _, err := io.ReadFull(r, data); err != nil {
		return out, err
	}
	return out, wire.DecodeStrict(data, &out)
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
	return nil
}

func load(gen *generation, r io.Reader) error {
	head, err := readRecord(r)
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
	txn := gen.db.Txn(true)
	defer txn.Abort() // after Commit it does nothing
	for count := uint64(0); ; count++ {
		rec, err := readRecord(r)
		switch {
		case errors.Is(err, io.EOF):
			return fmt.Errorf("it is cut off after %d objects", count)
		case err != nil:
			return err
		case rec.Count > 0:
			if rec.Count != count+1 {
				return fmt.Errorf("it holds %d objects and promises %d", count, rec.Count-1)
			}
			s := &Snap{txn: txn, gen: gen}
			if err := identify(s); err != nil {
				return err
			}
			for n := range s.Nodes(nil, "") {
				s.regroup(n, 1)
			}
			txn.Commit()
			return nil
		}
		t := byName[rec.Table]
		if t == nil {
			return fmt.Errorf("table %q is not known to this program", rec.Table)
		}
		if err := t.restore(txn, rec.Object); err != nil {
			return err
		}
	}
}
