package files

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	wal "github.com/hashicorp/raft-wal"
	"github.com/hashicorp/raft-wal/fs"
	"github.com/hashicorp/raft-wal/metadb"
	"github.com/hashicorp/raft-wal/segment"
	"github.com/hashicorp/raft-wal/types"
)

// MetaFile is where the library keeps the list of segments.
const MetaFile = "wal-meta.db"

// finishRotation ends a rotation of segments that a crash cut off. The library seals the last segment with the append
// that fills it, and notes that in its list of segments a moment later, together with the segment that follows. Between
// the two it lets itself be opened again and refuses every append from then on ("segment is sealed"). The entries are
// whole; what is made here is the note, as the library would have made it. ahead is that note where there was no room
// to write it, which the error says.
func finishRotation(dir string) (ahead *types.PersistentState, err error) {
	if _, err := os.Stat(filepath.Join(dir, MetaFile)); errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	meta := &metadb.BoltMetaDB{}
	defer func() {
		if cerr := meta.Close(); err == nil && cerr != nil {
			err = fmt.Errorf("close %s: %w", MetaFile, cerr)
		}
	}()
	list, err := meta.Load(dir)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", MetaFile, err)
	}
	if len(list.Segments) == 0 {
		return nil, nil
	}
	tail := &list.Segments[len(list.Segments)-1]
	if !tail.SealTime.IsZero() {
		return nil, nil
	}
	sealed, index, last, err := readTail(dir, *tail)
	if err != nil || !sealed {
		return nil, err
	}
	tail.SealTime = time.Now()
	tail.MaxIndex = last
	tail.IndexStart = index
	list.Segments = append(list.Segments, types.SegmentInfo{
		ID:         list.NextSegmentID,
		BaseIndex:  last + 1,
		MinIndex:   last + 1,
		SizeLimit:  tail.SizeLimit,
		Codec:      wal.CodecBinaryV1,
		CreateTime: time.Now(),
	})
	list.NextSegmentID++
	if err := meta.CommitState(list); err != nil {
		if IsFull(err) {
			ahead = &list
		}
		return ahead, fmt.Errorf("write %s: %w", MetaFile, err)
	}
	return nil, nil
}

// readTail reads the last segment: whether it is sealed, where its index begins, and its last entry. One that is not
// there yet is not sealed.
func readTail(dir string, info types.SegmentInfo) (sealed bool, index, last uint64, err error) {
	w, err := segment.NewFiler(dir, fs.New()).RecoverTail(info)
	if errors.Is(err, os.ErrNotExist) {
		return false, 0, 0, nil
	}
	if err != nil {
		return false, 0, 0, fmt.Errorf("read segment %s: %w", segment.FileName(info), err)
	}
	sealed, index, err = w.Sealed()
	last = w.LastIndex()
	if cerr := w.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return false, 0, 0, fmt.Errorf("read segment %s: %w", segment.FileName(info), err)
	}
	return sealed, index, last, nil
}
