package blocktrace

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// event is where the kernel puts the facts of a finished request in a record of its tracepoint block_rq_complete. Its
// layout is not fixed: every kernel describes its own (Documentation/trace/events.rst).
type event struct {
	id                         uint64
	sector, count, device, ops field
}

type field struct{ offset, size int }

const formatFile = "events/block/block_rq_complete/format"

// readFormat asks the kernel for the layout. The file system that says so is mounted for this process alone, at no
// path.
func readFormat() (event, error) {
	fs, err := unix.Fsopen("tracefs", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return event{}, fmt.Errorf("open tracefs: %w", err)
	}
	defer unix.Close(fs)
	if err := unix.FsconfigCreate(fs); err != nil {
		return event{}, fmt.Errorf("set tracefs up: %w", err)
	}
	root, err := unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, unix.MOUNT_ATTR_RDONLY)
	if err != nil {
		return event{}, fmt.Errorf("mount tracefs: %w", err)
	}
	defer unix.Close(root)
	fd, err := unix.Openat(root, formatFile, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return event{}, fmt.Errorf("open %s of tracefs: %w", formatFile, err)
	}
	f := os.NewFile(uintptr(fd), formatFile)
	defer f.Close()
	return parseFormat(f)
}

func parseFormat(r io.Reader) (event, error) {
	var e event
	fields := map[string]field{}
	for s := bufio.NewScanner(r); s.Scan(); {
		line := strings.TrimSpace(s.Text())
		if _, err := fmt.Sscanf(line, "ID: %d", &e.id); err == nil {
			continue
		}
		declared, rest, ok := strings.Cut(strings.TrimPrefix(line, "field:"), ";")
		var at field
		_, err := fmt.Sscanf(strings.TrimSpace(rest), "offset:%d; size:%d;", &at.offset, &at.size)
		if !ok || err != nil {
			continue
		}
		words := strings.Fields(declared)
		name, _, _ := strings.Cut(words[len(words)-1], "[")
		fields[name] = at
	}
	e.device, e.sector = fields["dev"], fields["sector"]
	e.count, e.ops = fields["nr_sector"], fields["rwbs"]
	if e.id == 0 || e.device.size != 4 || e.sector.size != 8 || e.count.size != 4 || e.ops.size < 2 {
		return event{}, fmt.Errorf("%s has a form that is not known: %v", formatFile, fields)
	}
	return e, nil
}

// request is one that the kernel has finished.
type request struct {
	sector, count uint64 // in units of 512 bytes
	read          bool
}

// parse reads the raw data of a record; ok is false where it is too short for its own layout.
func (e event) parse(raw []byte) (r request, ok bool) {
	if len(raw) < max(e.sector.offset+8, e.count.offset+4, e.ops.offset+e.ops.size) {
		return request{}, false
	}
	ops, _, _ := bytes.Cut(raw[e.ops.offset:e.ops.offset+e.ops.size], []byte{0})
	return request{
		sector: binary.NativeEndian.Uint64(raw[e.sector.offset:]),
		count:  uint64(binary.NativeEndian.Uint32(raw[e.count.offset:])),
		read:   bytes.IndexByte(ops, 'R') >= 0,
	}, true
}
