package files

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"path/filepath"

	"github.com/hashicorp/raft"

	"berth/internal/base/fault"
)

// An entry carries a checksum of what it is: CRC-32C over index, term, kind and data, from whoever proposed it. It lies
// in the entry's extensions, which the library keeps and sends with it: their first byte is the checksum's form, the
// next four are the sum. What holds an entry must hold it as it was proposed, so it is checked when the entry arrives
// from another server, is read, and is applied. Entries of before there were checksums have no extensions, and count as
// Sound.
const (
	sumForm = 1
	SumSize = 5    // bytes
	noForm  = 0xff // that no entry has
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// SumOf is the checksum of an entry.
func SumOf(e *raft.Log) uint32 {
	var head [17]byte
	binary.BigEndian.PutUint64(head[:], e.Index)
	binary.BigEndian.PutUint64(head[8:], e.Term)
	head[16] = byte(e.Type)
	return crc32.Update(crc32.Checksum(head[:], castagnoli), castagnoli, e.Data)
}

// Seal gives an entry that is being proposed its checksum.
func Seal(e *raft.Log) {
	if len(e.Extensions) == 0 {
		e.Extensions = binary.BigEndian.AppendUint32([]byte{sumForm}, SumOf(e))
	}
}

// Nothing is an entry that says nothing, and that no server takes.
func Nothing(index uint64) raft.Log {
	return raft.Log{Index: index, Type: raft.LogNoop, Extensions: []byte{noForm}}
}

// Sound tells what is wrong with an entry, if its checksum does.
func Sound(e *raft.Log) error {
	switch ext := e.Extensions; {
	case len(ext) == 0:
		return nil
	case len(ext) != SumSize || ext[0] != sumForm:
		return fmt.Errorf("entry %d is damaged: its checksum has a form that is not known", e.Index)
	case binary.BigEndian.Uint32(ext[1:]) != SumOf(e):
		return fmt.Errorf("entry %d is damaged: it does not match its checksum", e.Index)
	}
	return nil
}

// Damaged is the refusal of a file of the log in dir; what it says of the file is err.
func Damaged(err error, op, path, dir string) error {
	return fault.WithHint(fault.Wrap(err, fault.Internal, op, path),
		fmt.Sprintf("nothing was changed, and what runs on the nodes goes on; a server of several is mended by the "+
			"others while a majority of them answers; the only one: put %s back from a copy, or move it away, start "+
			"with an empty state, and put a saved one back with \"berth operator snapshot restore FILE\"",
			filepath.Clean(dir)))
}

// Verified is an entry that was read of the log in a directory, if it is sound.
func Verified(dir string, index uint64, e *raft.Log) error {
	err := Sound(e)
	if err == nil && e.Index != index {
		err = fmt.Errorf("entry %d is damaged: it says that it is entry %d", index, e.Index)
	}
	if err == nil {
		return nil
	}
	return Damaged(err, "read log", SegmentOf(WALDir(dir), index), dir)
}
