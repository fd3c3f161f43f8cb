package image

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
)

// Contents is what the first bytes of an image say.
type Contents struct {
	// FS is ext4 or xfs; empty when neither was found.
	FS string
	// Clean says that the file system was left in order and needs no check.
	Clean bool
	// Bytes is the size that the file system has given itself.
	Bytes int64
}

// Offsets and values of the superblocks, from the kernel's documentation of ext4 and of xfs.
const (
	extBase       = 1024
	extMagic      = 0xEF53
	extValid      = 0x1
	extErrors     = 0x2
	extRecover    = 0x4
	ext64bit      = 0x80
	extExtents    = 0x40
	extHasJournal = 0x4
	probeLen      = 4096
)

// Probe reads what file system an image holds. ext2 and ext3 are not ours and are not reported.
func Probe(path string) (Contents, error) {
	f, err := os.Open(path)
	if err != nil {
		return Contents{}, err
	}
	defer f.Close()
	buf := make([]byte, probeLen)
	if _, err := io.ReadFull(f, buf); err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		return Contents{}, fmt.Errorf("read the superblock of %s: %w", path, err)
	}
	if bytes.HasPrefix(buf, []byte("XFSB")) {
		be := binary.BigEndian
		return Contents{FS: XFS, Clean: true, Bytes: int64(be.Uint32(buf[4:])) * int64(be.Uint64(buf[8:]))}, nil
	}
	return probeExt(buf[extBase:]), nil
}

func probeExt(sb []byte) Contents {
	le := binary.LittleEndian
	if le.Uint16(sb[0x38:]) != extMagic {
		return Contents{}
	}
	incompat := le.Uint32(sb[0x60:])
	if incompat&extExtents == 0 || le.Uint32(sb[0x5C:])&extHasJournal == 0 {
		return Contents{}
	}
	blocks := uint64(le.Uint32(sb[0x4:]))
	if incompat&ext64bit != 0 {
		blocks |= uint64(le.Uint32(sb[0x150:])) << 32
	}
	state := le.Uint16(sb[0x3A:])
	return Contents{
		FS:    Ext4,
		Clean: state&extValid != 0 && state&extErrors == 0 && incompat&extRecover == 0,
		Bytes: int64(blocks << (10 + le.Uint32(sb[0x18:])&0xf)),
	}
}
