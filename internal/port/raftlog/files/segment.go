package files

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/hashicorp/raft"
	wal "github.com/hashicorp/raft-wal"
	"github.com/hashicorp/raft-wal/segment"
	"github.com/hashicorp/raft-wal/types"
)

// The form of a segment: a head of 32 bytes, then frames, each with a head of 8 bytes (its kind, three zeros, and its
// length or checksum) and padded to a multiple of 8. What is stored in one go ends with a frame that holds the checksum
// of everything since the one before.
const (
	SegmentHead  = 32
	frameHead    = 8
	segmentMagic = 0x58eb6b0d
)

// read is what a segment holds.
type read struct {
	data    []byte   // of the file
	offsets []uint32 // of the whole entries, from its first on
	index   uint64   // where the list of offsets begins; 0: it is not sealed
	// dropped is how many bytes follow them that were being written when the server ended, and were not acknowledged.
	dropped int
	end     int // of what is whole
}

// readSegment reads every frame of a segment, and says what is damaged in it; held is an entry up to which all are
// known to be on disk. A segment that takes no more must be whole. At the end of the one that does, what was being
// written when the server ended is dropped by the library, as never acknowledged: what lies before something that is
// whole was not that.
func readSegment(dir string, info types.SegmentInfo, held uint64) (read, error) {
	written := held >= info.BaseIndex
	data, err := os.ReadFile(filepath.Join(dir, segment.FileName(info)))
	sealed := !info.SealTime.IsZero()
	switch {
	case errors.Is(err, fs.ErrNotExist) && (written || sealed):
		return read{}, fmt.Errorf("it is missing; it held the entries from %d on", info.BaseIndex)
	case errors.Is(err, fs.ErrNotExist):
		return read{}, nil // it is made at the next start
	case err != nil:
		return read{}, err
	case len(data) < int(info.SizeLimit) && (written || sealed):
		return read{}, fmt.Errorf("it is cut off: it has %d bytes, and was made with %d", len(data), info.SizeLimit)
	}
	w := walk{data: data, info: info}
	w.batches()
	if w.bad != nil {
		return read{}, w.bad
	}
	next := info.BaseIndex + uint64(len(w.whole.offsets))
	switch {
	case w.follows():
		return read{}, fmt.Errorf("entry %d, or one that was stored with it, is damaged: what follows is whole", next)
	case sealed && next <= info.MaxIndex:
		return read{}, fmt.Errorf("entry %d is damaged: it can't be read, nor any up to %d", next, info.MaxIndex)
	case sealed && w.whole.index != info.IndexStart:
		return read{}, errors.New("its list of entries is damaged")
	case next <= held && !sealed:
		return read{}, fmt.Errorf("entry %d is damaged: it can't be read, nor any up to %d", next, held)
	}
	w.whole.dropped, w.whole.end = w.rest(), w.end
	w.whole.data = data
	return w.whole, nil
}

// walk goes through a segment.
type walk struct {
	data  []byte
	info  types.SegmentInfo
	whole read  // up to the last checksum that matched
	end   int   // of that
	bad   error // it matches, and what it is of was wrong before
}

// batches reads what was stored, one write after the other, until it ends or does not match its checksum.
func (w *walk) batches() {
	for start := 0; ; {
		end, more := w.batch(start)
		if !more || w.bad != nil {
			return
		}
		start, w.end = end, end
	}
}

// batch reads from the byte at start what one write has stored; more: it is whole.
func (w *walk) batch(start int) (end int, more bool) {
	now, end, ok := w.framed(start)
	if !ok {
		return 0, false
	}
	w.bad = w.stored(start, now)
	w.whole = now
	return end, true
}

// framed reads the frames of one write from the byte at start on; ok: they match their checksum.
func (w *walk) framed(start int) (now read, end int, ok bool) {
	now = w.whole // what is appended to its offsets lies behind those that w.whole has
	for at := max(start, SegmentHead); ; {
		kind, size, ok := w.frame(at)
		if !ok {
			return read{}, 0, false
		}
		switch kind {
		case segment.FrameEntry:
			now.offsets = append(now.offsets, uint32(at))
		case segment.FrameIndex:
			now.index = uint64(at) + frameHead
		case segment.FrameCommit:
			if binary.LittleEndian.Uint32(w.data[at+4:]) != crc32.Checksum(w.data[start:at], castagnoli) {
				return read{}, 0, false
			}
			return now, at + frameHead, true
		}
		at += (frameHead + size + frameHead - 1) &^ (frameHead - 1)
	}
}

// frame reads the head of a frame; size is of what follows the head.
func (w *walk) frame(at int) (kind uint8, size int, ok bool) {
	if at+frameHead > len(w.data) || w.data[at+1] != 0 || w.data[at+2] != 0 || w.data[at+3] != 0 {
		return 0, 0, false
	}
	kind = w.data[at]
	switch kind {
	case segment.FrameEntry, segment.FrameIndex:
		n := binary.LittleEndian.Uint32(w.data[at+4:])
		return kind, int(n), uint64(n) <= uint64(len(w.data)-at-frameHead)
	case segment.FrameCommit:
		return kind, 0, true
	}
	return 0, 0, false
}

// stored says what was wrong already when one write stored it: its bytes are those that were written.
func (w *walk) stored(start int, now read) error {
	if start == 0 && !w.head() {
		return errors.New("its head is that of another segment")
	}
	for i := len(w.whole.offsets); i < len(now.offsets); i++ {
		at, want := int(now.offsets[i]), w.info.BaseIndex+uint64(i)
		_, size, _ := w.frame(at) // it was read before
		var e raft.Log
		if err := (&wal.BinaryCodec{}).Decode(w.data[at+frameHead:][:size], &e); err != nil {
			return fmt.Errorf("entry %d is damaged: %w", want, err)
		}
		if e.Index != want {
			return fmt.Errorf("entry %d is damaged: it says that it is entry %d", want, e.Index)
		}
		if err := Sound(&e); err != nil {
			return err
		}
	}
	if now.index > 0 && !listed(w.data[now.index:], now.offsets) {
		return errors.New("its list of entries is damaged")
	}
	return nil
}

func (w *walk) head() bool {
	h := w.data[:SegmentHead]
	return binary.LittleEndian.Uint64(h) == segmentMagic && binary.LittleEndian.Uint64(h[8:]) == w.info.BaseIndex &&
		binary.LittleEndian.Uint64(h[16:]) == w.info.ID && binary.LittleEndian.Uint64(h[24:]) == w.info.Codec
}

func listed(list []byte, offsets []uint32) bool {
	if len(list) < 4*len(offsets) {
		return false
	}
	for i, o := range offsets {
		if binary.LittleEndian.Uint32(list[4*i:]) != o {
			return false
		}
	}
	return true
}

// follows tells whether, beyond where reading ended, something whole follows the end of an earlier write. It was stored
// when that write had been acknowledged; so what lies between is damaged, and was not cut off.
func (w *walk) follows() bool {
	for at := max(w.end, SegmentHead) + frameHead; at+frameHead <= len(w.data); at += frameHead {
		if kind, _, ok := w.frame(at - frameHead); !ok || kind != segment.FrameCommit {
			continue
		}
		if kind, _, ok := w.frame(at); !ok || kind == segment.FrameCommit {
			continue
		}
		after := walk{data: w.data, info: w.info}
		if _, whole := after.batch(at); whole {
			return true
		}
	}
	return false
}

// rest is how many bytes beyond where reading ended are not zero, and what lies before them.
func (w *walk) rest() int {
	for n := len(w.data); n > w.end; n-- {
		if w.data[n-1] != 0 {
			return n - w.end
		}
	}
	return 0
}
